/* The arena's state, shared by the files of this folder.
 *
 * Promises nothing to other folders. Everything in it is protected by its lock.
 */
#ifndef HAKMEM_ARENA_INTERNAL_H
#define HAKMEM_ARENA_INTERNAL_H

#include "arena/region.h"
#include "os/lock.h"

struct arena {
    struct lock lock;
    struct lock purge_lock; /* held while slabs are out of circulation; taken before `lock` or tried */
    struct region *oldest, *newest; /* the regions, doubly linked */
    size_t used_slabs;
    size_t dirty_slabs; /* free and perhaps resident */
    uint64_t purges, purged_bytes;
};
extern INTERNAL struct arena arena;

struct region *arena_add_region(size_t superslabs, bool only_huge);
bool arena_end_idle_regions(void);
bool arena_region_idle(const struct region *region);
void arena_end_region(struct region *region);

/* Takes the purge lock as well, having let go of the arena's for a moment: what was out of circulation
 * is back. Release it after the arena's. */
void arena_wait_for_purge(void);

/* Marks slabs free and dirty. */
void arena_free_slabs(struct region *region, size_t first_slab, size_t slabs);

/* Releases the lock, having purged what is over the bound (the lock is let go for the system calls). */
void arena_unlock_within_bound(void);

#endif
