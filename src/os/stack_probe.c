#define _GNU_SOURCE
#include "os/stack_probe.h"

#include "base/bits.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_SUCH_ACTION (-1)
#define MASK_BYTES 8

bool os_readable(uintptr_t address) {
    int saved_errno = errno;
    const void *mask = (const void *)round_down(address, MASK_BYTES);
    bool refused = syscall(SYS_rt_sigprocmask, NO_SUCH_ACTION, mask, NULL, MASK_BYTES) != 0;
    /* EINVAL says that the kernel has read the mask and then refused the action. */
    bool readable = refused && errno == EINVAL;
    errno = saved_errno;
    return readable;
}
