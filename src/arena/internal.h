/* The arena's state, shared by the files of this folder.
 *
 * Promises nothing to other folders. The lock in it protects everything in it; functions are called with that
 * lock held, and hold it when they return unless they say otherwise. Relies on regions and retention.
 */
#ifndef HAKMEM_ARENA_INTERNAL_H
#define HAKMEM_ARENA_INTERNAL_H

#include "arena/region.h"
#include "arena/retention.h"
#include "os/backoff.h"
#include "os/lock.h"

/* Where a purge was given up that had met much that was refused: the next one goes on there, or what lies
 * below would never be given back. */
struct left {
    struct region *region; /* NULL: nowhere */
    size_t superslab;      /* the superslabs before it are still to be tried */
    size_t slabs;          /* slabs that were refused before */
};

/* A program that has so many slabs in use is not small: 16 MiB. */
#define ARENA_LARGE_SLABS 256

struct arena {
    struct lock lock;
    /* Threads that are purging, or have a superslab filled: what they have taken out of circulation is
     * neither free nor dirty. Changed under the lock; atomic for os_wait. relaxed everywhere: the lock orders
     * it */
    _Atomic uint32_t purging;
    uint32_t purge_waiters; /* threads in arena_wait_for_one_purge */
    /* Threads in arena_wait_for_purge, for which no purge begins that can wait. Changed under the lock;
     * atomic for os_wait. relaxed everywhere, as above */
    _Atomic uint32_t end_waiters;
    uint32_t held_back;             /* threads that wait until there are none of these */
    struct region *oldest, *newest; /* the regions, doubly linked */
    size_t used_slabs;
    /* For those without the lock, as they were a moment ago; written under it. relaxed everywhere: hints */
    _Atomic size_t used_seen;  /* used_slabs */
    _Atomic size_t dirty_seen; /* dirty_slabs */
    _Atomic bool is_scarce;    /* retention.scarce */
    _Atomic size_t grace_seen; /* the grace when the bound was last worked out */
    bool needs_grace;          /* more was free in this period than may be without it */
    unsigned grace_unneeded;   /* periods since then */
    size_t used_most;          /* the most in use in this period of the decay */
    size_t used_most_before;   /* the most in use in the period before that */
    size_t used_unrelieved;    /* the most in use since decay.c's last relief was done */
    size_t dirty_slabs;        /* free, or behind huge blocks, and perhaps resident */
    size_t ahead_slabs;        /* those of dirty_slabs that are so only because of dense_fill */
    size_t hidden_slabs;       /* behind huge blocks, resident, and not in dirty_slabs: behind.h */
    size_t filling_slabs;      /* that will be dirty when the fills under way are over */
    size_t dirty_low;          /* the fewest dirty_slabs in this period of the decay */
    size_t dirty_low_before;   /* the fewest in the period before that */
    size_t refused_slabs;      /* dirty ones that the OS would not take back, while `refused` holds */
    struct backoff refused;
    bool memory_locked; /* the program has locked memory: what is committed of regions `locked` is resident */
    bool locked_in_new; /* what is made usable from now on is locked, and new regions are `locked` */
    size_t grown_superslabs; /* what the longest block that grew of late came to */
    struct left left;
    struct retention retention;
    uint64_t purges, purged_bytes, decayed_bytes, hole_bytes;
    /* Superslabs that were taken into use wholly free, and those that were made resident as one huge page. */
    uint64_t superslabs_opened, superslabs_dense;
    uint64_t regions_created;
};
extern INTERNAL struct arena arena;

/* Makes a region with room for a run of `superslabs`, and takes it into the list; `only_huge` as for
 * region_make. NULL if there is no address space, even without the flat page map. */
struct region *arena_add_region(size_t superslabs, bool only_huge);
/* Ends the regions made for one huge block that no block is in. True if there was one. */
bool arena_end_idle_regions(void);
/* Whether every slab of the region is free, but for its metadata: none is being purged, either. */
bool arena_region_idle(const struct region *region);
/* Takes the region, which is idle, from the list and unmaps it. */
void arena_end_region(struct region *region);
/* The same, and lets go of the lock meanwhile: where all of it may be resident, that takes the kernel as long
 * as to purge it. */
void arena_end_resident_region(struct region *region);

/* Brings used_seen and dirty_seen up to date. */
void arena_note_size(void);

/* The most slabs in use in this period and the one before. */
static inline size_t arena_used_most(void) {
    return max_size(arena.used_most, arena.used_most_before);
}

/* Counts slabs that are free no more, `dirty` of them perhaps resident and `clean` not, as in use. */
void arena_note_taken(size_t dirty, size_t clean);

/* Marks `slabs` slabs from `first_slab` of the region on free, and the first `resident` of them dirty. */
void arena_free_slabs(struct region *region, size_t first_slab, size_t slabs, size_t resident);

#endif
