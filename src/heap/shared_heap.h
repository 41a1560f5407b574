/* The heap of all threads that have none of their own: whose variables are gone already, or for which there
 * was no memory.
 *
 * Promises that one thread at a time uses it. Relies on the registry.
 */
#ifndef HAKMEM_HEAP_SHARED_HEAP_H
#define HAKMEM_HEAP_SHARED_HEAP_H

#include <stdbool.h>

struct heap;

/* The shared heap, locked; NULL, and nothing locked, if there is no memory. */
struct heap *shared_heap_lock(void);
void shared_heap_unlock(void);
/* Returns what the shared heap caches to its slabs. */
void shared_heap_collect(void);

void shared_heap_lock_for_fork(void);
void shared_heap_unlock_after_fork(bool child);

#endif
