/* Parcels: blocks on their way to their owner, many at a time.
 *
 * Promises that sending takes no lock, that what lies in parcels is bounded, and that it goes back to its
 * slabs when the owner does not come for it. Relies on flush.
 */
#ifndef HAKMEM_HEAP_PARCEL_H
#define HAKMEM_HEAP_PARCEL_H

#include "heap/heap.h"

/* Leaves blocks of together `bytes` (not 0) with the heap that they belong to, any thread; false if it takes
 * no parcel. */
bool parcel_send(struct heap *to, void *const *blocks, size_t n, size_t bytes);
static inline bool parcels_waiting(const struct heap *heap) {
    return atomic_load_explicit(&heap->parcels_posted, memory_order_relaxed) !=
           0; /* who takes one acquires */
}
/* Owner: opens parcels until the magazine that is wanted is half full; gives the blocks that magazines had
 * room for, whichever these are. */
size_t parcels_open(struct heap *heap, const struct magazine *wanted);
/* Any thread: returns what is in the parcels to its slabs; `self` is the caller's own heap, or NULL. */
size_t parcels_return(struct heap *self, struct heap *heap);
/* Background thread, at intervals: returns what lay in parcels since the last time while their owner did not
 * come for blocks. False if there are no parcels. */
bool parcels_look_after(void);
/* The same for all that lies in any; the background thread, which has ended as far as others know. */
void parcels_return_all(void);
void parcels_settle_after_fork(struct heap *heap);
/* Sees that no parcel is sent; false if there is one. What is in the parcels' memory may be lost until they
 * are open again. */
bool parcels_close(struct heap *heap);
void parcels_reopen(struct heap *heap);

#endif
