/* From an address to the region that holds it.
 *
 * Promises look-ups of one load in a table, without a lock. The table is of the whole address space; where
 * that is scarce (RLIMIT_AS), of 512 GiB around the first region. There a region may fill a part of its last
 * granule only, as it may in either once it has been cut. Making and forgetting regions is the arena's, under
 * its lock. Relies on the layout and os.
 */
#ifndef HAKMEM_ARENA_REGION_INDEX_H
#define HAKMEM_ARENA_REGION_INDEX_H

#include "arena/layout.h"
#include "base/bits.h"

#include <stdatomic.h>
#include <stdbool.h>

struct region;

/* The table of the whole address space: one word for each granule. */
#define REGION_BASES ((uintptr_t)1 << (ADDRESS_BITS - REGION_GRANULE_SHIFT))
#define REGION_BASES_BYTES (REGION_BASES * sizeof(uint32_t))

/* The word of a granule is the number of its region's first granule and, in the lowest bits, how many
 * superslabs of this granule the region has; 0 if there is no region. */
#define REGION_COUNT_BITS 5
#define REGION_COUNT_MASK (((uint32_t)1 << REGION_COUNT_BITS) - 1)

/* The table, as a pointer that granules' numbers index: it has those from region_bases_first on,
 * region_bases_limit in number. Pointer and first are written once, before the first region, and are not
 * changed after that, so look-ups need no lock: whoever has an address of a region comes later than that, and
 * for any other address the limit is read first, whose release in region_index.c pairs with the acquire in
 * look_up. */
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

/* The region that any `address` lies in; NULL if there is none. */
struct region *region_of_any(uintptr_t address);

/* The page-map word of any `address` where the map is not flat; NULL if it lies in no region. */
_Atomic uint32_t *region_page_word(uintptr_t address);

/* Has `table` serve for the whole address space: REGION_BASES_BYTES of zeros, read-only until covered. Called
 * before the first region is made, or else the small table serves. */
void region_index_use_table(void *table);
/* What the length of a region is a multiple of where there is no reason for less. A region begins at a
 * multiple of REGION_GRANULE_BYTES. */
size_t region_index_unit(void);
/* Reserves `bytes` of address space for a region; NULL if there is none. Arena lock held. */
void *region_index_reserve(size_t bytes);
/* Makes the table's entries for the range writable. False if the OS refuses, or if the small table has none
 * for it. Arena lock held. */
bool region_index_cover(uintptr_t start, size_t bytes);
/* From now on, look-ups in the range, which is covered, find the region at `start`; without `there`, none.
 * Arena lock held. */
void region_index_set(uintptr_t start, size_t bytes, bool there);

#endif
