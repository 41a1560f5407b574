/* The calls by which a program says that address space is scarce, or that its memory shall be resident.
 *
 * The flat page map would then count as 8 GiB: against RLIMIT_AS, so that the program's next stack or file
 * would be refused, and against RLIMIT_MEMLOCK; and mlockall would take a second, and 16 MiB of page tables,
 * to lock it. So these calls give it up, and each free takes a few loads more from then on.
 */
#include "api/keep.h"
#include "arena/address_space.h"
#include "base/bits.h"
#include "hakmem.h"
#include "os/os.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAKMEM_SHARED

/* prlimit, after which the allocator spares address space if that is limited now. */
static int set_limit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *before) {
    int result = (int)syscall(SYS_prlimit64, process, resource, limit, before);
    /* Not if the limit is another process's, and not in a child of vfork, which has its parent's memory. */
    if (limit != NULL && resource == RLIMIT_AS && (process == 0 || process == os_process_id()) &&
        os_in_own_process()) {
        int saved_errno = errno;
        /* Whatever the call returned: the kernel sets the limit before it finds that `before` is bad. */
        struct rlimit now;
        if (syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &now) == 0) {
            arena_spare_address_space(now.rlim_cur); /* RLIM_INFINITY is the largest of all */
        }
        errno = saved_errno;
    }
    return result;
}

/* The 64-bit names, too: on 64-bit machines they are the same functions. */
int prlimit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *before);
int prlimit64(pid_t process, int resource, const struct rlimit *limit, struct rlimit *before);
int setrlimit64(int resource, const struct rlimit *limit);

COLD HAK_EXPORT int setrlimit(int resource, const struct rlimit *limit) {
    return set_limit(0, resource, limit, NULL);
}

COLD HAK_EXPORT int setrlimit64(int resource, const struct rlimit *limit) {
    return set_limit(0, resource, limit, NULL);
}

COLD HAK_EXPORT int prlimit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *before) {
    return set_limit(process, resource, limit, before);
}

COLD HAK_EXPORT int prlimit64(pid_t process, int resource, const struct rlimit *limit,
                              struct rlimit *before) {
    return set_limit(process, resource, limit, before);
}

RARE HAK_EXPORT int mlockall(int flags) {
    if ((flags & MCL_CURRENT) != 0 && os_in_own_process()) {
        arena_spare_address_space(0);
    }
    int result = (int)syscall(SYS_mlockall, flags);
    if (result == 0 && (flags & MCL_ONFAULT) == 0 && os_in_own_process()) {
        /* Gives back free memory that is resident now because it was locked. */
        arena_note_locked((flags & MCL_CURRENT) != 0, (flags & MCL_FUTURE) != 0);
        /* A program that also locks what it will have is not to wait for a page later. */
        keep_free_memory(KEEP_LOCKED, (flags & MCL_FUTURE) != 0);
    }
    return result;
}

RARE HAK_EXPORT int munlockall(void) {
    int result = (int)syscall(SYS_munlockall);
    if (os_in_own_process()) {
        arena_note_unlocked();
        keep_free_memory(KEEP_LOCKED, false);
    }
    return result;
}

#endif
