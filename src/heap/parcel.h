/* Parcels: blocks on their way to their owner, many at a time.
 *
 * Promises that sending takes no lock, that what lies in parcels is bounded, and that it goes back to its
 * slabs when the owner does not come for it. Relies on flush.
 */
#ifndef HAKMEM_HEAP_PARCEL_H
#define HAKMEM_HEAP_PARCEL_H

#include "heap/heap.h"

/* Any thread: leaves `n` blocks of together `bytes` (not 0) with the heap `to` that they belong to; false if
 * that takes no parcel, and the blocks are still the caller's. */
bool parcel_send(struct heap *to, void *const *blocks, size_t n, size_t bytes);
/* Any thread: whether any parcel is posted. relaxed: a hint; whoever takes one acquires */
static inline bool parcels_waiting(const struct heap *heap) {
    return atomic_load_explicit(&heap->parcels_posted, memory_order_relaxed) != 0;
}
/* Owner: opens parcels until the magazine `wanted` is half full; gives how many blocks went into magazines,
 * whichever these are. */
size_t parcels_open(struct heap *heap, const struct magazine *wanted);
/* Any thread: returns what is in the heap's parcels to its slabs; gives the number of blocks. `self` is the
 * caller's own heap, or NULL. */
size_t parcels_return(struct heap *self, struct heap *heap);
/* Background thread, at intervals: returns what is in parcels whose owner has not come for blocks since the
 * last call. False if no parcel was posted. */
bool parcels_look_after(void);
/* Returns what is in the parcels of all heaps; by the background thread, when it has ended as far as others
 * know. */
void parcels_return_all(void);
/* In a forked child: gives up what lost threads had claimed and not posted. */
void parcels_settle_after_fork(struct heap *heap);
/* Claims all parcels of a heap that is in no list, so that none is sent and their memory may be purged; false
 * if one is claimed or posted. */
bool parcels_close(struct heap *heap);
/* Ends what parcels_close began. */
void parcels_reopen(struct heap *heap);

#endif
