/* Where a run of slabs goes: the search for a place.
 *
 * Promises resident memory before other, then the lowest address, and not to look at more superslabs than a
 * malloc can wait for. The caller holds the arena's lock. Relies on regions.
 */
#ifndef HAKMEM_ARENA_PLACE_H
#define HAKMEM_ARENA_PLACE_H

#include "arena/region.h"
#include "arena/run.h"

struct place {
    struct region *region;
    size_t superslab;
    unsigned first; /* slab of it */
};

/* Finds a free run of `slabs` (1 to SLABS_PER_SUPERSLAB) that begins on a multiple of `alignment_slabs` of
 * them; makes more of a region usable if need be. False if no region has room. */
bool place_find(unsigned slabs, unsigned alignment_slabs, enum arena_use use, struct place *out);
/* As place_find, for when that has found none: looks at every superslab that may have such a run, and makes
 * none usable. */
bool place_find_last(unsigned slabs, unsigned alignment_slabs, struct place *out);

#endif
