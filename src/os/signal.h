/* Handlers of signals.
 *
 * Promises that system calls which the signal interrupts are restarted, and the alternate stack where a
 * thread has one. Relies on nothing.
 */
#ifndef HAKMEM_OS_SIGNAL_H
#define HAKMEM_OS_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* No signal comes to the calling thread until os_restore_signals: around what the handler of one must not
 * find half done, and a child that it forks must not do once more. */
void os_block_signals(uint64_t *before);
void os_restore_signals(const uint64_t *before);

/* False if there is no such signal, it cannot have a handler, or it is how a crash is told. */
bool os_on_signal(int number, void (*handler)(int number));

#endif
