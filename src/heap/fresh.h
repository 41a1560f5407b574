/* Fresh blocks: those of a slab that were never handed out. On a run that was used before, or is resident
 * ahead of use, they are free memory that is resident, but neither the arena's nor slack (slack.h).
 *
 * Promises no lock while blocks move, and one atomic addition for each SLACK_STEP_BYTES of them. Relies on
 * slack and the arena.
 */
#ifndef HAKMEM_HEAP_FRESH_H
#define HAKMEM_HEAP_FRESH_H

#include "heap/slack.h"

/* Bytes of fresh blocks that are resident, of all heaps. relaxed everywhere: a guess is enough */
extern INTERNAL _Atomic int64_t fresh_resident;

/* As slack_settle. */
static inline void fresh_settle(struct heap *heap) {
    atomic_fetch_add_explicit(&fresh_resident, heap->fresh_bytes, memory_order_relaxed);
    heap->fresh_bytes = 0;
}

/* As slack_add, for fresh blocks that are resident. */
static inline void fresh_add(struct heap *self, int64_t bytes) {
    if (UNLIKELY(self == NULL)) {
        atomic_fetch_add_explicit(&fresh_resident, bytes, memory_order_relaxed);
    } else if (UNLIKELY(slack_count(&self->fresh_bytes, bytes))) {
        fresh_settle(self);
    }
}

/* Has a slab just taken, all of whose blocks are fresh, and which is resident, given back to the OS first if
 * there are too many of those already: parts of it may never be wanted. True if it is clean now. No lock
 * held. */
bool fresh_clean(struct slab *slab, size_t bytes);
/* With fewer fresh blocks there are never too many. */
#define FRESH_LEAST_BYTES ((int64_t)1 << 20)
static inline bool fresh_clean_if_many(struct slab *slab, size_t bytes) {
    bool few = atomic_load_explicit(&fresh_resident, memory_order_relaxed) < FRESH_LEAST_BYTES;
    return UNLIKELY(!few) && fresh_clean(slab, bytes);
}

#endif
