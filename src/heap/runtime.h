/* The start of the library.
 *
 * Promises that all is set up once, before the first block, whoever takes it. Relies on every other part.
 */
#ifndef HAKMEM_HEAP_RUNTIME_H
#define HAKMEM_HEAP_RUNTIME_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the library up if nothing has yet. */
void runtime_start(void);
/* Whether libc's allocator is to serve: HAKMEM_FORCE_LIBC_ALLOC is in force, or the calling thread is setting
 * the library up (starts it). */
bool runtime_libc_forced(void);

/* Waits until a start that another thread has begun is over, and holds off others until the fork is done. */
void runtime_lock_for_fork(void);
void runtime_unlock_after_fork(bool child);

#ifdef __cplusplus
}
#endif

#endif
