#define _GNU_SOURCE
#include "os/stack_probe.h"

#include "base/bits.h"
#include "os/environment.h"
#include "os/os.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_SUCH_ACTION (-1)
#define MASK_BYTES 8
/* The kernel lets the first thread's stack grow, so that this much is there. */
#define FIRST_STACK_BYTES ((size_t)1 << 20)
/* Further below the end of its stack a thread is not looked for: each page is a system call. */
#define DEPTH_MOST ((size_t)8 << 20)

bool os_readable(uintptr_t address) {
    int saved_errno = errno;
    const void *mask = (const void *)round_down(address, MASK_BYTES);
    bool refused = syscall(SYS_rt_sigprocmask, NO_SUCH_ACTION, mask, NULL, MASK_BYTES) != 0;
    /* EINVAL says that the kernel has read the mask and then refused the action. */
    bool readable = refused && errno == EINVAL;
    errno = saved_errno;
    return readable;
}

/* In a forked child the only thread has the process's number, and the stack that it had. */
static bool is_first_thread(void) {
    return os_thread_id() == os_process_id() && os_is_first_of_its_kin();
}

uintptr_t os_own_stack_end(void) {
    return is_first_thread() ? os_main_stack_end() : (uintptr_t)__builtin_thread_pointer();
}

COLD bool os_own_stack_has(size_t bytes) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t end = os_own_stack_end();
    size_t depth = end - here; /* huge if it is above */
    if (depth < FIRST_STACK_BYTES && is_first_thread()) {
        return true;
    }
    bool own = depth < DEPTH_MOST;
    for (uintptr_t at = here - bytes; own && at < end; at += OS_PAGE_BYTES) {
        own = os_readable(at);
    }
    return own;
}
