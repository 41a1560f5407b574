/* Whether memory can be read, without touching it.
 *
 * Promises no side effect but the system call itself, no lock, no allocation, and errno as it was. Relies on
 * rt_sigprocmask reading the mask that it is given before it checks what it is to do with it.
 */
#ifndef HAKMEM_OS_STACK_PROBE_H
#define HAKMEM_OS_STACK_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the page that `address` is in can be read; false also where the kernel does not tell. */
bool os_readable(uintptr_t address);

#endif
