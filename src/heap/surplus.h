/* The bound on what a thread has of blocks above 1 KiB without using it.
 *
 * Each magazine is bounded for itself; but threads that free what others allocate fill one after the other by
 * and by, and those of many threads would hold several times what the program does. So would the slabs that
 * each of them uses for each size. Promises that what is too much goes back when it is looked at. By the
 * heap's thread, entered or not. Relies on flush and the registry.
 */
#ifndef HAKMEM_HEAP_SURPLUS_H
#define HAKMEM_HEAP_SURPLUS_H

#include "arena/bound.h"
#include "heap/heap.h"

/* Returns half of what is in the thread's magazines of blocks above 1 KiB, the oldest of each, if they hold
 * more than its part of what all threads may; and where many threads leave too much free in slabs, has others
 * find those that this one uses. */
void surplus_return(struct heap *heap);

/* At intervals. Only where the program is large: no other shall need this page of code. */
static inline void surplus_look(struct heap *heap) {
    if (UNLIKELY(arena_is_large())) {
        surplus_return(heap);
    }
}

#endif
