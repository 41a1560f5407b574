/* Looking at all memory of the arena, piece by piece.
 *
 * Promises to hold the arena's lock for a few superslabs at a time only, however large the process is: what
 * changes between two pieces may be seen in both or in neither. Relies on regions and the arena's lock.
 */
#ifndef HAKMEM_ARENA_WALK_H
#define HAKMEM_ARENA_WALK_H

#include "arena/region.h"

enum piece_kind {
    PIECE_METADATA, /* of a region; the first piece of each */
    PIECE_CLEAN,    /* free, not resident */
    PIECE_DIRTY,    /* free, perhaps resident */
    PIECE_CLASS,    /* blocks of one size class */
    PIECE_LARGE,    /* one large or huge block */
    PIECE_INTERNAL, /* heaps and tables of the allocator's */
};

/* A run of slabs that are used for one thing. */
struct piece {
    const struct region *region;
    struct slab *head; /* of its first slab; says something of runs in use only */
    uintptr_t address;
    size_t slabs;
    enum piece_kind kind;
};

/* How far a walk has come: the address at which the next step begins, 0 at first. */
struct walk {
    uintptr_t at;
};

struct walk_visitor {
    /* Told which addresses the step is about, at most WALK_STEP_BYTES, without the lock; may be NULL. A piece
     * may reach beyond them. */
    void (*prepare)(uintptr_t from, size_t bytes, void *context);
    /* Arena lock held: must not take it, nor make system calls. */
    void (*visit)(const struct piece *piece, void *context);
    void *context;
};

#define WALK_STEP_SUPERSLABS ((size_t)4)
#define WALK_STEP_BYTES (WALK_STEP_SUPERSLABS * SUPERSLAB_BYTES)

/* Visits what begins in the next few superslabs; false when there is nothing left. Arena lock not held. */
bool arena_walk_step(struct walk *walk, const struct walk_visitor *visitor);

#endif
