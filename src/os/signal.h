/* Blocking signals, and handlers of signals.
 *
 * Promises that a handler runs on the alternate stack where a thread has one, and that system calls which its
 * signal interrupts are restarted. Relies on os.
 */
#ifndef HAKMEM_OS_SIGNAL_H
#define HAKMEM_OS_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* The bit of the signal `number` in a set of them as the kernel has it. */
#define OS_SIGNAL_BIT(number) ((uint64_t)1 << ((number)-1))

/* Blocks all signals for the calling thread until os_restore_signals, and stores in `before` which
 * were blocked already. For what a handler must not find half done, and a child that it forks must
 * not do once more. */
void os_block_signals(uint64_t *before);
void os_restore_signals(const uint64_t *before);

/* Ends the process by SIGABRT, from a thread that has all signals blocked and not all that a handler of the
 * program's may use: where there is a handler, it first gets ten seconds in another thread, and the process
 * ends when it returns. */
_Noreturn void os_abort_elsewhere(void);

/* Sets `handler` for the signal `number`. False if there is no such signal, it cannot have a handler, or it
 * is one by which the kernel tells of a crash. */
bool os_on_signal(int number, void (*handler)(int number));

#endif
