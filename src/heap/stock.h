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

/* Owner: puts `n` blocks of the class into its stock; false if it takes none of them. */
bool stock_put(struct heap *heap, unsigned size_class, void *const *blocks, size_t n);
/* Owner: takes up to `want` blocks of the class, those put last, into `out`; returns how many. Nonnull: an
 * owner has a heap, and the code of none would take the place of what is called often. */
size_t stock_take(struct heap *heap, unsigned size_class, void **out, size_t want) __attribute__((nonnull));
/* Any thread: returns the heap's stock of the class to the slabs; gives the number of blocks. `self` is the
 * caller's own heap, or NULL. */
size_t stock_return(struct heap *self, struct heap *heap, unsigned size_class);
/* Owner: returns its stock of the class if that has as many blocks as at the last look, by this or by
 * stocks_look_after: probably nobody needed it since. */
void stock_trim(struct heap *heap, unsigned size_class);
/* Any thread: does what stock_trim does for all stocks of all heaps, up to `most` blocks in all, and what
 * runs_return_unused does (runs.h). */
void stocks_look_after(size_t most);
/* Any thread: returns all stocks of the heap, and the runs that it keeps. `self` is the caller's own heap, or
 * NULL. */
void stocks_return(struct heap *self, struct heap *heap);
/* Any thread: returns up to `most` blocks of whatever stocks there are, and the runs that heaps keep, until
 * that is done. */
void stocks_relieve(size_t most);

/* Blocks that went from stocks back to their slabs since the start, of all heaps. */
uint64_t stocks_returned_blocks(void);

/* Whether anything was ever put into the heap's stocks: most small programs never come to their pages. */
static inline bool stocks_were_used(const struct heap *heap) {
    /* relaxed: a hint */
    return atomic_load_explicit(&heap->counters.flushes_stocked, memory_order_relaxed) > 0;
}
/* Blocks in the heap's stock of the class. relaxed: written under the heap's lock; elsewhere a hint, and a
 * statistic */
static inline size_t stock_count(const struct heap *heap, unsigned size_class) {
    return atomic_load_explicit(&heap->stocks[size_class].blocks, memory_order_relaxed);
}
static inline bool stock_has_blocks(const struct heap *heap, unsigned size_class) {
    return stocks_were_used(heap) && stock_count(heap, size_class) > 0;
}
/* Bytes that the pointers to `blocks` blocks in a stock take. */
static inline size_t stock_bytes(size_t blocks) {
    return round_up(blocks * sizeof(uint32_t), OS_PAGE_BYTES);
}

#endif
