/* Slack: what free blocks in slabs take of memory.
 *
 * Every heap counts what its owner puts into slabs and takes from them, whosever these are, and adds the
 * difference to a sum of all, by the 64 KiB. What is purged of free blocks, and what of that is wanted again,
 * is counted here, too. What follows from the sum is the matter of relief.h.
 *
 * Promises no lock, and one atomic addition for each 64 KiB of blocks that move. Relies on the arena.
 */
#ifndef HAKMEM_HEAP_SLACK_H
#define HAKMEM_HEAP_SLACK_H

#include "arena/bound.h"
#include "heap/heap.h"

/* What is worth an addition to the sum of all heaps. */
#define SLACK_STEP_BYTES ((int64_t)64 << 10)
/* Adds to a heap's own count; whether that is now SLACK_STEP_BYTES, more or less. */
static inline bool slack_count(int64_t *own, int64_t bytes) {
    *own += bytes;
    return *own >= SLACK_STEP_BYTES || *own <= -SLACK_STEP_BYTES;
}

/* Bytes of free blocks that are not resident, because their pages were purged; and of slack_note_taken.
 * relaxed everywhere, both: a guess is enough */
extern INTERNAL _Atomic int64_t slack_purged;
extern INTERNAL _Atomic uint64_t slack_taken_bytes;

/* Adds what a heap has counted to the sum: its thread leaves it, and may have been the last to have it. */
static inline void slack_settle(struct heap *heap) {
    arena_add_slack(heap->slack_bytes);
    heap->slack_bytes = 0;
}

/* Counts `bytes` more in free blocks of slabs; `self` is the caller's own heap, or NULL. */
static inline void slack_add(struct heap *self, int64_t bytes) {
    if (UNLIKELY(self == NULL)) {
        arena_add_slack(bytes);
    } else if (UNLIKELY(slack_count(&self->slack_bytes, bytes))) {
        slack_settle(self);
    }
}

/* `bytes` more of free blocks were purged or, if negative, count as purged no more. */
static inline void slack_note_purged(int64_t bytes) {
    if (bytes != 0) {
        atomic_fetch_add_explicit(&slack_purged, bytes, memory_order_relaxed);
    }
}

/* Blocks are taken again from a slab of which `bytes` had been purged: where that is often, it was not worth
 * it. */
static inline void slack_note_taken(size_t bytes) {
    atomic_fetch_add_explicit(&slack_taken_bytes, bytes, memory_order_relaxed);
}
/* The sum of all `bytes` that slack_note_taken was told. */
static inline uint64_t slack_taken_again(void) {
    return atomic_load_explicit(&slack_taken_bytes, memory_order_relaxed);
}

/* Bytes that free blocks in slabs take, without purged pages. Any thread; a guess. */
int64_t slack_resident(void);
/* Bytes that free blocks in slabs may take before anything of them is purged. Any thread. */
int64_t slack_allowed(void);
/* Whether that is more than may be, before any grace. */
static inline bool slack_exceeds(void) {
    return slack_resident() > slack_allowed();
}

#endif
