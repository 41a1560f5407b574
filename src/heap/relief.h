/* Relief: what free blocks in slabs take beyond what they may is given back by the threads that return
 * blocks.
 *
 * Where the slack of all heaps (slack.h) has grown by more than free memory may stay resident at all, what is
 * over that is looked for and given back (holes.h), a little with each few hundred KiB of blocks that come
 * back. What cannot be is in pages that other blocks share, and counts no more until there is less of it. A
 * program that takes again what it was relieved of may have that much more.
 *
 * Promises that the looks cost in proportion to what is returned. Relies on slack, holes and the arena.
 */
#ifndef HAKMEM_HEAP_RELIEF_H
#define HAKMEM_HEAP_RELIEF_H

#include "heap/slack.h"

/* Bytes that come back to slabs by one heap's owner between two of its looks. */
#define RELIEF_LOOK_BYTES ((size_t)256 << 10)

/* Owner: looks for holes, in its own heap first, if more is free than may be, and has the arena look at whole
 * slabs. No heap's lock held. */
void relief_look(struct heap *self);
/* Looks for holes in all heaps, for a thread that has freed other memory, so that less may be free. One
 * thread at a time, no heap's lock held. Takes a few ms; returns whether there is more to do. */
bool relief_look_everywhere(void);

/* Whether more is free than may be, and what the heap's magazines hold of small blocks keeps it: much of what
 * the program holds, or few bytes that can be in many pages. Owner. */
enum relief_kept { KEPT_LITTLE, KEPT_MUCH, KEPT_IN_MANY_PAGES };
enum relief_kept relief_kept_by(const struct heap *self);

/* In a forked child: releases the lock of relief.c, which a thread of the parent may have held. */
void relief_lock_lost_by_fork(void);

/* All blocks (of `block_bytes`) in a page are free now, or in the several pages that a word of the bitmap
 * stands for. They counted no more while some were in use; the next look, which comes the sooner, counts them
 * again. */
static inline void relief_note_page(struct heap *self, size_t block_bytes) {
    if (self != NULL) {
        size_t bytes = size_class_words_of_page(block_bytes) * 64 * block_bytes;
        self->page_bytes += bytes;
        self->unlooked_bytes -= min_size(bytes, self->unlooked_bytes);
    }
}

/* Blocks of together `bytes` have come back to slabs; `self` is the caller's own heap, or NULL. Takes heaps'
 * locks now and then. */
static inline void relief_note_returned(struct heap *self, size_t bytes) {
    slack_add(self, (int64_t)bytes);
    if (LIKELY(self != NULL)) {
        if (LIKELY(bytes < self->unlooked_bytes)) {
            self->unlooked_bytes -= bytes;
        } else {
            relief_look(self);
        }
    }
}

#endif
