/* Collecting: what threads keep for their next allocations goes back to its slabs, and slabs that are wholly
 * free then to the arena.
 *
 * Magazines, stocks and parcels hold a few MiB at most, but each of their blocks may be the last of a slab:
 * of a heap that was freed in no order they can pin nearly all. Promises to return all that is held back by
 * the calling thread and by threads that have ended. Callers hold no lock. Relies on the heaps.
 */
#ifndef HAKMEM_HEAP_COLLECT_H
#define HAKMEM_HEAP_COLLECT_H

#include <stdbool.h>
#include <stddef.h>

/* What sleeping threads hold, too, where that is safe. Any thread. Purges nothing. */
void heap_collect(void);

/* There is no memory for a request of so many bytes: whether it is worth another try, because everything has
 * been collected meanwhile, by this thread or another one. That takes some ms, and no more than a ninth of
 * the time of a program that asks again and again. */
bool heap_collect_for(size_t size);
/* In a forked child. */
void heap_collect_lost_by_fork(void);

#endif
