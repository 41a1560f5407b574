/* Whether another thread of the process sleeps, and where it will wake up.
 *
 * Promises that two equal answers of os_asleep mean that the thread was in one and the same system call all
 * the time between them, having run not one instruction of its own; and that os_in_signal_handler finds any
 * handler that it sleeps in.
 * Relies on /proc; where that does not tell, nobody sleeps.
 */
#ifndef HAKMEM_OS_ASLEEP_H
#define HAKMEM_OS_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct os_sleep {
    uint64_t switches; /* context switches of the thread so far, voluntary or not */
    uint64_t call;     /* number of the system call that it is in */
    uintptr_t stack;   /* its stack pointer */
};

/* Whether the thread with the kernel's id `thread` sleeps in a system call; `out` says in which, and is only
 * then valid. False if it runs, waits for the processor or for a page, is stopped outside a system call, or
 * shares its memory with a child that it waits for, and where the kernel does not tell. Keeps errno. */
bool os_asleep(int thread, struct os_sleep *out);

/* Whether that thread runs or waits for the processor; false where the kernel does not tell. Keeps errno. */
bool os_is_running(int thread);

/* Whether the stack of the thread that `sleep` tells of, from its stack pointer to `stack_end`, has what the
 * kernel saves when it calls a signal handler. True also if that cannot be told. */
bool os_in_signal_handler(const struct os_sleep *sleep, uintptr_t stack_end);

/* Stores the context switches of `thread` so far, voluntary or not, in `out`; false if the
 * kernel does not tell. */
bool os_switches(int thread, uint64_t *out);

#endif
