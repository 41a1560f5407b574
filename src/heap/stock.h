/* Stocks: blocks that magazines had no room for, kept as pointers.
 *
 * A block that goes back to its slab has to be found there, and found again when it is wanted. A program that
 * drops what it built, to build anew, has its blocks kept for that: a heap's stock of a class is a stack of
 * pointers behind the magazine, which takes them by the batch and gives them back as cheaply.
 *
 * Promises that what lies in stocks counts as free blocks in slabs (slack.h), only grows while these take
 * less of memory than they may before anything of it is purged, and is within what arena_stock_room says;
 * that a flush which the stocks do not take returns some of them, and that what was not needed for a while
 * goes back. A stock is under its heap's lock: put to and taken from by the owner alone, returned by anyone.
 * No caller holds that lock. Relies on the arena for room, and does without where that has none.
 */
#ifndef HAKMEM_HEAP_STOCK_H
#define HAKMEM_HEAP_STOCK_H

#include "heap/heap.h"

/* Only the tiny lane has stocks: of larger blocks, pages cost more than finding them. */

/* Owner: takes blocks of the class, all of them or none. */
bool stock_put(struct heap *heap, unsigned size_class, void *const *blocks, size_t n);
/* Owner: up to `want` blocks into `out`, those put last; 0 if there are none. */
size_t stock_take(struct heap *heap, unsigned size_class, void **out, size_t want);
/* Returns a class's stock to the slabs; gives the number of blocks. `self` is the caller's own heap, or NULL,
 * here and below. */
size_t stock_return(struct heap *self, struct heap *heap, unsigned size_class);
/* Owner: the same if it has as many as at the last such look: probably nobody needed it since. */
void stock_trim(struct heap *heap, unsigned size_class);
/* The same for all heaps, any thread, up to `most` blocks. */
void stocks_look_after(size_t most);
/* Any thread: returns all stocks of a heap. With stocks go the runs that it keeps (runs.h), here, above and
 * below. */
void stocks_return(struct heap *self, struct heap *heap);
/* Any thread, no heap's lock held: up to `most` blocks of whatever stocks there are. */
void stocks_relieve(size_t most);

/* From all stocks to slabs, since the start. */
uint64_t stocks_returned_blocks(void);

/* So many blocks; of the tiny lane only. relaxed: written under the heap's lock; elsewhere a hint, and a
 * statistic */
static inline size_t stock_count(const struct heap *heap, unsigned size_class) {
    return atomic_load_explicit(&heap->stocks[size_class].blocks, memory_order_relaxed);
}
/* What the pointers to so many take. */
static inline size_t stock_bytes(size_t blocks) {
    return round_up(blocks * sizeof(uint32_t), OS_PAGE_BYTES);
}

#endif
