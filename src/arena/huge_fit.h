/* Where a run of superslabs goes: the search for a place.
 *
 * Promises the free place with the room that is wanted, or most of it; of equals the one that needs the
 * fewest pages from the OS, of those one in the shortest free stretch, so that long ones stay, and then the
 * lowest. Looks first where something is resident, and at every free superslab only if that does not do. The
 * caller holds the arena's lock. Relies on regions.
 */
#ifndef HAKMEM_ARENA_HUGE_FIT_H
#define HAKMEM_ARENA_HUGE_FIT_H

#include "arena/region.h"

struct huge_fit {
    struct region *region;
    size_t first, length; /* the run begins there, in a free stretch of this length */
    size_t dirty;         /* resident slabs in it */
    size_t room;          /* free superslabs from its first on, as far as they are wanted */
    size_t uncommitted;   /* superslabs that have to be made usable for it */
};

/* Finds a place for `superslabs` on a multiple of `alignment` (a power of two), and makes all of it usable;
 * rather one where `room` superslabs would fit; in `region` or one that was made after it. False if none has
 * one. */
bool huge_fit_find(struct region *region, size_t superslabs, size_t alignment, size_t room,
                   struct huge_fit *out);

/* Whether a superslab is wholly free; what is not committed yet is as good as that. */
bool huge_fit_is_free(const struct region *region, size_t superslab);

#endif
