#include "arena/region_index.h"

#include "arena/region.h"
#include "os/os.h"

_Atomic uint32_t *region_bases;
uintptr_t region_bases_first;
_Atomic uintptr_t region_bases_limit;

_Static_assert(REGION_GRANULE_BYTES / SUPERSLAB_BYTES <= REGION_COUNT_MASK, "a count fits");
_Static_assert(ADDRESS_BITS - REGION_GRANULE_SHIFT + REGION_COUNT_BITS <= 32, "the first granule beside it");

/* The small table: its granules (512 GiB), and those of them that lie above the first region (64 GiB).
 * Regions lie below it as a rule, because the kernel fills the address space downwards. */
#define FEW ((uintptr_t)1 << 14)
#define FEW_ABOVE (FEW / 8)
/* Places that are tried for a region: other memory of the program's may lie in some. */
#define TRIES_MOST 64
/* few_reserve puts nothing below 4 GiB: what has to lie low needs room. */
#define LOWEST_GRANULE ((uintptr_t)128)
/* The words of the small table. */
static SELDOM _Atomic uint32_t few[FEW];

static inline uintptr_t limit(void) {
    /* relaxed: it is written before there is a region, or under the lock that callers hold */
    return atomic_load_explicit(&region_bases_limit, memory_order_relaxed);
}

static ALWAYS_INLINE void use(_Atomic uint32_t *table, uintptr_t first, uintptr_t granules) {
    region_bases = (_Atomic uint32_t *)((uintptr_t)table - first * sizeof *table);
    region_bases_first = first;
    /* release pairs with the acquire in look_up: whoever finds the limit finds the table */
    atomic_store_explicit(&region_bases_limit, granules, memory_order_release);
}

OFTEN void region_index_use_table(void *table) {
    use(table, 0, REGION_BASES);
}

OFTEN size_t region_index_unit(void) {
    return limit() == REGION_BASES ? REGION_GRANULE_BYTES : SUPERSLAB_BYTES;
}

static inline uintptr_t granule_of(uintptr_t start) {
    return start >> REGION_GRANULE_SHIFT;
}

/* The number of the granule behind the last one that the range has a part of. */
static ALWAYS_INLINE uintptr_t granules_end(uintptr_t start, size_t bytes) {
    return granule_of(start + bytes + REGION_GRANULE_BYTES - 1);
}

static COLD bool few_cover(uintptr_t start, size_t bytes) {
    if (limit() == 0) {
        uintptr_t end = granules_end(start, bytes) + FEW_ABOVE;
        use(few, end > FEW ? end - FEW : 0, FEW);
    }
    return granule_of(start) >= region_bases_first && granules_end(start, bytes) <= region_bases_first + FEW;
}

/* Reserves `bytes` at a place that the small table has. The highest that may be free are tried first, so that
 * regions that come and go stay where the first was. NULL if none of them is free, or if there is no room for
 * more memory: `*no_room` then is true. */
static COLD void *few_reserve(size_t bytes, bool *no_room) {
    uintptr_t wanted = granules_end(0, bytes), free = 0;
    uintptr_t g = region_bases_first + FEW - FEW_ABOVE, lowest = max_size(region_bases_first, LOWEST_GRANULE);
    for (unsigned tries = 0; tries < TRIES_MOST && !*no_room && g > lowest;) {
        g--;
        /* relaxed: only changed under the lock, which is held */
        free = atomic_load_explicit(&region_bases[g], memory_order_relaxed) == 0 ? free + 1 : 0;
        if (free >= wanted) {
            void *place = (void *)(g << REGION_GRANULE_SHIFT);
            enum os_placed placed = os_reserve_at(place, bytes);
            if (placed == OS_PLACED) {
                return place;
            }
            *no_room = placed == OS_NO_ROOM;
            tries++;
        }
    }
    return NULL;
}

OFTEN void *region_index_reserve(size_t bytes) {
    bool no_room = false;
    void *place = limit() == FEW ? few_reserve(bytes, &no_room) : NULL;
    return place != NULL || no_room ? place : os_reserve(bytes, REGION_GRANULE_BYTES);
}

OFTEN bool region_index_cover(uintptr_t start, size_t bytes) {
    if (limit() != REGION_BASES) {
        return few_cover(start, bytes);
    }
    uintptr_t from = round_down((uintptr_t)&region_bases[granule_of(start)], OS_PAGE_BYTES);
    uintptr_t to = round_up((uintptr_t)&region_bases[granules_end(start, bytes)], OS_PAGE_BYTES);
    return os_commit((void *)from, to - from);
}

OFTEN void region_index_set(uintptr_t start, size_t bytes, bool there) {
    uintptr_t first = granule_of(start), end = granules_end(start, bytes);
    for (uintptr_t g = first; g < end; g++) {
        size_t here = min_size(bytes - ((size_t)(g - first) << REGION_GRANULE_SHIFT), REGION_GRANULE_BYTES);
        uintptr_t word = first << REGION_COUNT_BITS | here >> SUPERSLAB_SHIFT;
        /* release pairs with the acquire in region_of and look_up: whoever finds the region finds it whole */
        atomic_store_explicit(&region_bases[g], there ? (uint32_t)word : 0, memory_order_release);
    }
}

static ALWAYS_INLINE struct region *look_up(uintptr_t address) {
    uintptr_t granule = address >> REGION_GRANULE_SHIFT;
    /* acquire pairs with the release in use: whoever finds a limit finds the table */
    uintptr_t limit = atomic_load_explicit(&region_bases_limit, memory_order_acquire);
    if (UNLIKELY(granule - region_bases_first >= limit)) {
        return NULL;
    }
    /* acquire pairs with the release in region_index_set */
    uint32_t word = atomic_load_explicit(&region_bases[granule], memory_order_acquire);
    uint32_t superslab = (uint32_t)(address % REGION_GRANULE_BYTES >> SUPERSLAB_SHIFT);
    return superslab < (word & REGION_COUNT_MASK) ? region_of_word(word) : NULL;
}

struct region *region_of_any(uintptr_t address) {
    return look_up(address);
}

_Atomic uint32_t *region_page_word(uintptr_t address) {
    struct region *region = look_up(address);
    return region == NULL ? NULL : &region->page_words[region_slab_index(region, address)];
}
