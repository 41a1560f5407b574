/* Collecting: what threads keep for their next allocations goes back to its slabs, and slabs that are wholly
 * free then to the arena.
 *
 * Magazines, stocks and parcels hold a few MiB at most, but each of their blocks may be the last of a slab:
 * of a heap that was freed in no order they can pin nearly all. Promises to return all that is held back by
 * the calling thread, by threads that have ended and, where that is safe, by those that sleep. Callers hold
 * no lock. Relies on the heaps.
 */
#ifndef HAKMEM_HEAP_COLLECT_H
#define HAKMEM_HEAP_COLLECT_H

#include <stdbool.h>
#include <stddef.h>

/* Any thread. Purges nothing. */
void heap_collect(void);

/* There is no memory for a request of so many bytes: whether it is worth another try, everything having been
 * collected meanwhile. That takes some ms, and no more than a small part of a program's time, however often
 * it asks. */
bool heap_collect_for(size_t size);

#endif
