/* Slack: what free blocks in slabs take of memory.
 *
 * Every heap counts what its owner has put into slabs and not taken from them, whosever these are: the sum
 * over all heaps is what lies in slabs. Where it has grown by more than free memory may stay resident at all,
 * what is over that is looked for and given back (holes.h), a little with each few hundred KiB of blocks that
 * come back, by the threads that return them. What cannot be is in pages that other blocks share, and counts
 * no more until there is less of it. A program that takes again what it was relieved of may have that much
 * more.
 *
 * Promises no lock and no shared cache line while blocks move, and that the looks cost in proportion to what
 * is returned. Relies on holes and the arena.
 */
#ifndef HAKMEM_HEAP_SLACK_H
#define HAKMEM_HEAP_SLACK_H

#include "heap/heap.h"

/* Looks are so far apart in a program of few threads. */
#define SLACK_LOOK_BYTES ((size_t)256 << 10)

/* What threads without a heap have done, and what of all free blocks is not resident, because their pages
 * were purged. relaxed: a guess is enough */
extern _Atomic int64_t slack_of_no_heap, slack_purged;

/* `self` is the caller's own heap, or NULL. */
static inline void slack_add(struct heap *self, int64_t bytes) {
    if (LIKELY(self != NULL)) {
        int64_t had = atomic_load_explicit(&self->slack_bytes, memory_order_relaxed); /* its own */
        atomic_store_explicit(&self->slack_bytes, had + bytes, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&slack_of_no_heap, bytes, memory_order_relaxed);
    }
}

static inline void slack_note_purged(int64_t bytes) {
    if (bytes != 0) {
        atomic_fetch_add_explicit(&slack_purged, bytes, memory_order_relaxed);
    }
}

/* Looks for holes if it is time to. */
void slack_look(struct heap *self);

/* Blocks of together `bytes` have come back to slabs. Takes heaps' locks now and then. */
static inline void slack_note_returned(struct heap *self, size_t bytes) {
    slack_add(self, (int64_t)bytes);
    if (LIKELY(self != NULL)) {
        self->returned_bytes += bytes;
        if (UNLIKELY(self->returned_bytes >= SLACK_LOOK_BYTES)) {
            slack_look(self);
        }
    }
}

#endif
