/* Handlers of signals.
 *
 * Promises that system calls which the signal interrupts are restarted, and the alternate stack where a
 * thread has one. Relies on nothing.
 */
#ifndef HAKMEM_OS_SIGNAL_H
#define HAKMEM_OS_SIGNAL_H

#include <stdbool.h>

/* False if there is no such signal or it cannot have a handler. */
bool os_on_signal(int number, void (*handler)(int number));

#endif
