#include "os/signal.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool os_on_signal(int number, void (*handler)(int number)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    return !tells_of_a_crash(number) && sigaction(number, &action, NULL) == 0;
}

void os_block_signals(uint64_t *before) {
    uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all);
}

void os_restore_signals(const uint64_t *before) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof *before);
}
