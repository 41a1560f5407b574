/* From an address to the region that holds it.
 *
 * Promises look-ups of one load in a table, without a lock. The table is of the whole address space; where
 * that is scarce (RLIMIT_AS), of 512 GiB around the first region, and there a region may fill a part of its
 * last granule only. Making and forgetting regions is the arena's, under its lock. Relies on the layout and
 * os.
 */
#ifndef HAKMEM_ARENA_REGION_INDEX_H
#define HAKMEM_ARENA_REGION_INDEX_H

#include "arena/layout.h"
#include "base/bits.h"

#include <stdatomic.h>
#include <stdbool.h>

struct region;

/* What the table of all takes. */
#define REGION_BASES ((uintptr_t)1 << (ADDRESS_BITS - REGION_GRANULE_SHIFT))
#define REGION_BASES_BYTES (REGION_BASES * sizeof(uint32_t))

/* The word of a granule says which one is its region's first, and how many superslabs of its own that has; 0
 * if there is none. */
#define REGION_COUNT_BITS 5
#define REGION_COUNT_MASK (((uint32_t)1 << REGION_COUNT_BITS) - 1)

/* So that granules can be the index; granules from `first` on, `limit` of them, are in the table. */
extern INTERNAL _Atomic uint32_t *region_bases;
extern INTERNAL uintptr_t region_bases_first;
extern INTERNAL _Atomic uintptr_t region_bases_limit;

static inline struct region *region_of_word(uint32_t word) {
    return (struct region *)((uintptr_t)(word & ~REGION_COUNT_MASK)
                             << (REGION_GRANULE_SHIFT - REGION_COUNT_BITS));
}

/* The region of an address that is or was in one; NULL if that has ended. */
static inline struct region *region_of(uintptr_t address) {
    /* acquire pairs with the release in region_index_set: whoever finds a region finds it whole */
    return region_of_word(
        atomic_load_explicit(&region_bases[address >> REGION_GRANULE_SHIFT], memory_order_acquire));
}

/* The same for any address, NULL if it is in none. */
struct region *region_of_any(uintptr_t address);

/* The page-map word of any address where the map is not flat; NULL if it is in no region. */
_Atomic uint32_t *region_page_word(uintptr_t address);

/* Before the first region, if there is a table of all: REGION_BASES_BYTES of zeros, read-only until covered.
 */
void region_index_use_table(void *table);
/* What the length of a region is to be a multiple of. It begins at a multiple of REGION_GRANULE_BYTES. */
size_t region_index_unit(void);
/* Address space for a region; NULL if there is none. */
void *region_index_reserve(size_t bytes);
/* Makes what says of such a range where its region is writable. False if the OS refuses, or there is none. */
bool region_index_cover(uintptr_t start, size_t bytes);
/* Look-ups of the range, which is covered, find the region at its start from now on, or none. */
void region_index_set(uintptr_t start, size_t bytes, bool there);

#endif
