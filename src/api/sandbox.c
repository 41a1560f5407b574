/* prctl, by which a program that is about to filter its system calls says so: to install a filter, or, where
 * it does that by a system call of its own, that it wants no new privileges. Memory is then given back
 * by calls that filters know.
 */
#include "api/sandbox.h"

#include "api/names.h"
#include "base/bits.h"
#include "os/os.h"
#include "os/purge.h"

#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAKMEM_SHARED

COLD int sandbox_take(int option, ...) {
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        arguments[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    /* Not in a child of vfork, whose filters are not its parent's. */
    if ((option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) && os_in_own_process()) {
        os_purge_expect_filter();
    }
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

ALSO_NAMED(prctl, sandbox_take, int, (int option, ...))

#endif
