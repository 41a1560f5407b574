/* unshare and setns, which do what they are asked for only in a process of one thread, and clone, which
 * copies such a process without fork's handlers: where the program has no threads, the library's ends before.
 */
#include "api/names.h"
#include "api/sandbox.h"
#include "arena/decay.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#if SANDBOX_GIVES_NOTICE

static int one_thread_unshare(int flags) {
    return (int)sandbox_syscall(SYS_unshare, flags, 0, 0, 0, 0, 0);
}

static int one_thread_setns(int fd, int type) {
    return (int)sandbox_syscall(SYS_setns, fd, type, 0, 0, 0, 0);
}

typedef int child_function(void *);
/* libc's clone, by its other name. */
extern int __clone(child_function *run, void *stack, int flags, void *argument, ...);

static int one_thread_clone(child_function *run, void *stack, int flags, void *argument, void *parent_id,
                            void *thread, void *child_id) {
    if ((flags & CLONE_VM) == 0) {
        decay_make_way();
    }
    return __clone(run, stack, flags, argument, parent_id, thread, child_id);
}

ALSO_NAMED(unshare, one_thread_unshare, int, (int flags))
ALSO_NAMED(setns, one_thread_setns, int, (int fd, int type))
ALSO_NAMED(clone, one_thread_clone, int,
           (child_function * run, void *stack, int flags, void *argument, void *parent_id, void *thread,
            void *child_id))

#endif
