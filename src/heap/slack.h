/* Slack: what free blocks in slabs take of memory.
 *
 * Every heap counts what its owner puts into slabs and takes from them, whosever these are, and adds the
 * difference to a sum of all, by the 64 KiB. Where the sum has grown by more than free memory may stay
 * resident at all, what is over that is looked for and given back (holes.h), a little with each few hundred
 * KiB of blocks that come back, by the threads that return them. What cannot be is in pages that other blocks
 * share, and counts no more until there is less of it. A program that takes again what it was relieved of may
 * have that much more.
 *
 * Promises no lock while blocks move, and one atomic addition for each 64 KiB of them; that the looks cost in
 * proportion to what is returned. Relies on holes and the arena.
 */
#ifndef HAKMEM_HEAP_SLACK_H
#define HAKMEM_HEAP_SLACK_H

#include "arena/bound.h"
#include "heap/heap.h"

/* Bytes that come back to slabs by one heap's owner between two of its looks. */
#define SLACK_LOOK_BYTES ((size_t)256 << 10)
/* What is worth an addition to the sum of all heaps. */
#define SLACK_STEP_BYTES ((int64_t)64 << 10)
/* Adds to a heap's own count; whether that is now SLACK_STEP_BYTES, more or less. */
static inline bool slack_count(int64_t *own, int64_t bytes) {
    *own += bytes;
    return *own >= SLACK_STEP_BYTES || *own <= -SLACK_STEP_BYTES;
}

/* Bytes of free blocks that are not resident, because their pages were purged. relaxed everywhere: a guess is
 * enough */
extern _Atomic int64_t slack_purged;

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

/* Bytes that free blocks in slabs take, without purged pages. Any thread; a guess. */
int64_t slack_resident(void);
/* Bytes that free blocks in slabs may take before anything of them is purged. Any thread. */
int64_t slack_allowed(void);
/* Owner: looks for holes, in its own heap first, if more is free than may be, and has the arena look at whole
 * slabs. No heap's lock held. */
void slack_look(struct heap *self);
/* Ticks of the decay, of half of DECAY_MS each, after which what was free throughout them is not breathed. */
#define SLACK_IDLE_TICKS 2
/* Owner: to be called now and then while at least SLACK_IDLE_TICKS in a row (decay.h) found most of what is
 * free in slabs idle. A thread that lives on what it caches comes to no slack_look, and its blocks keep the
 * pages of others. Where these are much, and more is free than may be, its magazines of small blocks are
 * emptied, a few with each call; once, until RETAIN_MIN more is free than was left then. */
void slack_empty_caches(struct heap *self);
/* Looks for holes in all heaps, for a thread that has freed other memory, so that less may be free. One
 * thread at a time, no heap's lock held. Takes a few ms; returns whether there is more to do. */
bool slack_relieve(void);
/* In a forked child: releases the lock of slack.c, which a thread of the parent may have held. */
void slack_lock_lost_by_fork(void);

/* All blocks (of `block_bytes`) in a page are free now, or in the several pages that a word of the bitmap
 * stands for. They counted no more while some were in use; the next look, which comes the sooner, counts them
 * again. */
static inline void slack_note_page(struct heap *self, size_t block_bytes) {
    if (self != NULL) {
        size_t bytes = size_class_words_of_page(block_bytes) * 64 * block_bytes;
        self->page_bytes += bytes;
        self->unlooked_bytes -= min_size(bytes, self->unlooked_bytes);
    }
}

/* Blocks of together `bytes` have come back to slabs; `self` is the caller's own heap, or NULL. Takes heaps'
 * locks now and then. */
static inline void slack_note_returned(struct heap *self, size_t bytes) {
    slack_add(self, (int64_t)bytes);
    if (LIKELY(self != NULL)) {
        if (LIKELY(bytes < self->unlooked_bytes)) {
            self->unlooked_bytes -= bytes;
        } else {
            slack_look(self);
        }
    }
}

#endif
