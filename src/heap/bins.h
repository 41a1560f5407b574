/* Which slab a heap takes blocks from: the current one, its partly-used ones, another heap's, or a new one.
 *
 * Promises that a slab is in one list at most, and that one which is wholly free is released by whoever sees
 * it first. By the heap's thread where nothing else is said. Relies on slab and arena.
 */
#ifndef HAKMEM_HEAP_BINS_H
#define HAKMEM_HEAP_BINS_H

#include "heap/heap.h"

/* Up to `want` free blocks of the class that were used before into `out`, lowest address last; 0 if the heap
 * has none. */
size_t bin_take_used(struct heap *heap, unsigned size_class, void **out, size_t want);
/* Then, any others; 0 if there is no memory. */
size_t bin_take(struct heap *heap, unsigned size_class, void **out, size_t want);
/* Puts the current slab among the partly-used ones or releases it, and so the one set aside. */
void bin_retire(struct heap *heap, unsigned size_class);
/* The slab has free blocks again: sees that its owner learns of it. */
void bin_queue(struct heap *self, struct slab *slab);
/* Releases the slab if it is parked and wholly free. */
void bin_release_if_free(struct heap *self, struct slab *slab);
/* In a forked child, for a heap that has lost its thread: makes sure that its current slab is one. */
void bin_settle_after_fork(struct heap *heap, unsigned size_class);
/* With the heap's lock: puts what is in the inbox into the lists. */
void bin_drain_inbox(struct heap *heap);
/* So many partly-used slabs there are. */
static inline uint32_t bin_count_partial(const struct heap *heap, unsigned size_class) {
    return atomic_load_explicit(&heap->bins[size_class].partial_count, memory_order_relaxed);
}
/* Whether any list has a slab, or may have when the inbox is drained. */
static inline bool bin_has_partial(const struct heap *heap) {
    return atomic_load_explicit(&heap->partial_slabs, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&heap->inbox, memory_order_relaxed) != NULL; /* a hint */
}
/* Makes a partly-used slab of another heap the current one; there is none. False if that has none to give. */
bool bin_adopt(struct heap *heap, unsigned size_class, struct heap *from);
/* Releases what is wholly free in the heap's lists, its inbox included. */
void bin_sweep(struct heap *self, struct heap *heap);

/* Finds another heap with a partly-used slab of the class, which becomes the current one; there is none. */
bool adopt_slab(struct heap *heap, unsigned size_class);

#endif
