/* prctl and syscall, by which programs install filters of their system calls: memory is then given back by
 * calls that filters know. To say that a thread wants no new privileges counts, too: one without privileges
 * has to before it can have a filter, unless it was started so, and may install that in another way. Before
 * what only a process of one thread can do (one_thread.c), the library's thread ends.
 */
#include "api/sandbox.h"

#include "api/names.h"
#include "arena/decay.h"
#include "base/bits.h"
#include "os/purge.h"

#include <errno.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/syscall.h>

#if SANDBOX_GIVES_NOTICE

/* The system call itself: libc's function may be the one below. */
static inline long enter_kernel(long number, long a, long b, long c, long d, long e, long f) {
#ifdef __x86_64__
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    register long sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return number;
#else
    register long called __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    register long sixth __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(called), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return first;
#endif
}

static NOINLINE long fail(long result) {
    errno = (int)-result;
    return -1;
}

/* The last 4095 numbers are errors. */
static inline long with_errno(long result) {
    return LIKELY((unsigned long)result <= -4096ul) ? result : fail(result);
}

/* Of the first argument the kernel reads the lower half only. */
static inline bool may_bring_a_filter(long number, long argument) {
    int a = (int)argument;
    return (number == SYS_seccomp && (a == SECCOMP_SET_MODE_FILTER || a == SECCOMP_SET_MODE_STRICT)) ||
           (number == SYS_prctl && (a == PR_SET_SECCOMP || a == PR_SET_NO_NEW_PRIVS));
}

/* Whether the call wants a process of one thread, or ends one, whose status is that of the last to end.
 * clone3 counts always: what its argument points to is for the kernel to read. */
static inline bool wants_one_thread(long number, long a) {
#ifdef SYS_fork
    if (number == SYS_fork) {
        return true;
    }
#endif
    return (number == SYS_clone && (a & CLONE_VM) == 0) || number == SYS_clone3 || number == SYS_unshare ||
           number == SYS_setns || number == SYS_exit;
}

/* The two have no frame of their own when they enter the kernel, as libc's syscall: what that calls may come
 * back on another stack. */
RARE static long enter_after_notice(long number, long a, long b, long c, long d, long e, long f) {
    return with_errno(enter_kernel(number, a, b, c, d, e, f));
}

RARE static long enter_with_notice(long number, long a, long b, long c, long d, long e, long f) {
    if (may_bring_a_filter(number, a)) {
        os_purge_expect_filter();
    }
    decay_make_way();
    return enter_after_notice(number, a, b, c, d, e, f);
}

long sandbox_syscall(long number, long a, long b, long c, long d, long e, long f) {
    return UNLIKELY(may_bring_a_filter(number, a) || wants_one_thread(number, a))
               ? enter_with_notice(number, a, b, c, d, e, f)
               : with_errno(enter_kernel(number, a, b, c, d, e, f));
}

int sandbox_prctl(int option, long a, long b, long c, long d) {
    return (int)sandbox_syscall(SYS_prctl, option, a, b, c, d, 0);
}

ALSO_NAMED(prctl, sandbox_prctl, int, (int option, long a, long b, long c, long d))
ALSO_NAMED(syscall, sandbox_syscall, long, (long number, long a, long b, long c, long d, long e, long f))

#endif
