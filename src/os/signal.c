#include "os/signal.h"

#include "base/bits.h"
#include "os/os.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For os_abort_elsewhere: how long it may take until a thread takes the signal, and how long a handler may
 * take that writes a report, and sends it. */
#define TAKEN_MS 100
#define HANDLER_PATIENCE_MS 10000

/* A handler that returns from one of these makes the program crash again, for ever. */
static bool tells_of_a_crash(int number) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (number == crashes[i]) {
            return true;
        }
    }
    return false;
}

COLD bool os_on_signal(int number, void (*handler)(int number)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    return !tells_of_a_crash(number) && sigaction(number, &action, NULL) == 0;
}

static const uint64_t mask_of_abort = OS_SIGNAL_BIT(SIGABRT);

COLD static _Noreturn void end_by_abort(void) {
    const uintptr_t default_action[4] = {(uintptr_t)SIG_DFL};
    syscall(SYS_rt_sigaction, SIGABRT, default_action, NULL, sizeof mask_of_abort);
    syscall(SYS_tgkill, os_process_id(), os_thread_id(), SIGABRT);
    for (;;) {
        syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask_of_abort, NULL, sizeof mask_of_abort);
        syscall(SYS_exit_group, 128 + SIGABRT);
    }
}

typedef void handler(int number, siginfo_t *info, void *context);
static handler *programs_handler; /* written before it can be called */

/* As abort does: whose handler returns does not go on. */
COLD static void handle_and_end(int number, siginfo_t *info, void *context) {
    programs_handler(number, info, context); /* one of one argument ignores the others */
    end_by_abort();
}

COLD void os_abort_elsewhere(void) {
    /* What the kernel has of a handler, whose address comes first: all zero for the default action. */
    uintptr_t action[4] = {0};
    syscall(SYS_rt_sigaction, SIGABRT, NULL, action, sizeof mask_of_abort);
    if (action[0] != (uintptr_t)SIG_DFL && action[0] != (uintptr_t)SIG_IGN) {
        uint64_t pending = 0;
        if (action[0] != (uintptr_t)handle_and_end) { /* as it is in a child that the handler has forked */
            programs_handler = (handler *)action[0];
            action[0] = (uintptr_t)handle_and_end;
            syscall(SYS_rt_sigaction, SIGABRT, action, NULL, sizeof mask_of_abort);
        }
        syscall(SYS_kill, os_process_id(), SIGABRT);
        os_sleep_ms(TAKEN_MS);
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
        os_sleep_ms((pending & mask_of_abort) != 0 ? 0 : HANDLER_PATIENCE_MS);
    }
    end_by_abort();
}

void os_block_signals(uint64_t *before) {
    uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all);
}

void os_restore_signals(const uint64_t *before) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof *before);
}
