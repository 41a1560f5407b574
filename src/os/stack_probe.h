/* Whether memory can be read, without touching it, and what that says of stacks.
 *
 * Promises no side effect but system calls, no lock, no allocation, and errno as it was. Relies on
 * rt_sigprocmask reading the mask that it is given before it checks what it is to do with it, and on a
 * thread's control block standing at the top of its stack, as in glibc and musl.
 */
#ifndef HAKMEM_OS_STACK_PROBE_H
#define HAKMEM_OS_STACK_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the page that `address` is in can be read; false also where the kernel does not tell. */
bool os_readable(uintptr_t address);

/* An address above the frames on the stack that the calling thread was made with; 0 if unknown. */
uintptr_t os_own_stack_end(void);
/* Whether the caller runs on that stack, and has `bytes` of it left. False on other stacks (coroutines),
 * where nobody can tell whose the memory below is, unless such a one ends right below the thread's own,
 * without a page between them that cannot be read. False also deep down in a thread's stack. */
bool os_own_stack_has(size_t bytes);

#endif
