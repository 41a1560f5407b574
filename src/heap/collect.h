/* Collecting: what threads keep for their next allocations goes back to its slabs, and slabs that are wholly
 * free then to the arena.
 *
 * Magazines, stocks and parcels hold a few MiB at most, but each of their blocks may be the last of a slab:
 * of a heap that was freed in no order they can pin nearly all. Promises to return all that is held back by
 * the calling thread and by threads that have ended. Callers hold no lock. Relies on the heaps and the arena.
 */
#ifndef HAKMEM_HEAP_COLLECT_H
#define HAKMEM_HEAP_COLLECT_H

#include <stdbool.h>
#include <stddef.h>

/* Collects, also what sleeping threads hold, where that is safe, and purges all that is free then, the holes
 * of slabs and what lies behind large blocks, too. Returns the bytes that anybody has purged meanwhile. Any
 * thread. */
size_t heap_give_back(void);

/* For a request of `size` bytes that has failed: collects, and returns true if another try is worth it,
 * because everything has been collected meanwhile, by this thread or another one. That takes some ms; as
 * long as it is at most 125, a program that asks again and again spends no more than a ninth of its time
 * with it. */
bool heap_collect_for(size_t size);
/* In a forked child: releases the lock that a thread of the parent may have held. */
void heap_collect_lost_by_fork(void);

#endif
