/* Profiles: the entry points, and what happens at start and at exit. */
#include "base/bits.h"
#include "hakmem.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "profile/dump.h"
#include "profile/files.h"
#include "profile/leaks.h"
#include "profile/pinned.h"
#include "profile/sample.h"

#include <errno.h>

__attribute__((constructor)) OFTEN static void at_load(void) {
    int saved_errno = errno;
    files_at_start();    /* the library was started by the first constructor */
    errno = saved_errno; /* 0 when main begins, as C demands */
}

__attribute__((destructor)) OFTEN static void at_exit(void) {
    files_at_exit();
}

int hak_profile_start(size_t interval_bytes) {
    if (interval_bytes > PROFILE_INTERVAL_MOST) {
        errno = EINVAL;
        return -1;
    }
    if (runtime_libc_forced()) {
        errno = ENOTSUP;
        return -1;
    }
    profile_start(interval_bytes);
    sampling_look_soon();
    return 0;
}

int hak_profile_stop(void) {
    profile_stop();
    return 0;
}

int hak_profile_dump(int fd) {
    struct snapshot *snapshot = snapshot_take(true);
    return snapshot == NULL ? -1 : dump_write(fd, snapshot);
}

int hak_profile_fragmentation(int fd) {
    runtime_start();
    return pinned_write(fd);
}

int hak_profile_leaks(int fd) {
    return leaks_write(fd);
}
