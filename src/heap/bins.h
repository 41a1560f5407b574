/* Which slab a heap takes blocks from: the current one, its partly-used ones, another heap's, or a new one.
 *
 * Promises that a slab is in one list at most, and that one which is wholly free is released by whoever sees
 * it first. By the heap's thread where nothing else is said. Relies on slab and arena.
 */
#ifndef HAKMEM_HEAP_BINS_H
#define HAKMEM_HEAP_BINS_H

#include "heap/heap.h"

/* Puts up to `want` free blocks of the class that were used before into `out`, lowest address last; 0 if the
 * heap has none. */
size_t bin_take_used(struct heap *heap, unsigned size_class, void **out, size_t want);
/* Puts up to `want` free blocks of the class into `out`, lowest address last: ones of the current slab that
 * were never used, else used ones, else those of another heap's slab or of a new one; 0 if there is no
 * memory. Whoever wants used ones first calls bin_take_used before. */
size_t bin_take(struct heap *heap, unsigned size_class, void **out, size_t want);
/* Puts the class's current slab, and the one set aside, among the partly-used ones, or releases them if they
 * are wholly free. */
void bin_retire(struct heap *heap, unsigned size_class);
/* Any thread, no heap's lock held: the slab has free blocks again; sees that its owner learns of it. `self`
 * is the caller's own heap, or NULL. */
void bin_queue(struct heap *self, struct slab *slab);
/* Any thread, no heap's lock held: releases the slab if it is in its owner's list or inbox and wholly free.
 * `self` is the caller's own heap, or NULL. */
void bin_release_if_free(struct heap *self, struct slab *slab);
/* In a forked child, for a heap that has lost its thread: forgets what is noted as the class's current slab,
 * or as the one set aside, where it is none. */
void bin_settle_after_fork(struct heap *heap, unsigned size_class);
/* Any thread, heap's lock held: moves the slabs in the inbox to the lists. */
void bin_drain_inbox(struct heap *heap);
/* Any thread: slabs in the class's list of partly-used ones. */
static inline uint32_t bin_count_partial(const struct heap *heap, unsigned size_class) {
    return atomic_load_explicit(&heap->bins[size_class].partial_count, memory_order_relaxed);
}
/* Any thread: whether any list has a slab, or may have one when the inbox is drained. relaxed, both: a
 * hint */
static inline bool bin_has_partial(const struct heap *heap) {
    return atomic_load_explicit(&heap->partial_slabs, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&heap->inbox, memory_order_relaxed) != NULL;
}
/* Makes a partly-used slab of `from` the class's current slab in `heap`, which has none; false if `from` has
 * none to give. Takes the lock of `from`. */
bool bin_adopt(struct heap *heap, unsigned size_class, struct heap *from);
/* Any thread, no heap's lock held: releases all slabs in the heap's lists and inbox that are wholly free.
 * `self` is the caller's own heap, or NULL. */
void bin_sweep(struct heap *self, struct heap *heap);

#endif
