/* Regions: where address space comes from, and the way from an address to its metadata.
 *
 * Promises that a region, once made, is never unmapped while a slab header in it may still be read,
 * and that look-ups take no lock. Making and ending regions is the arena's, under its lock.
 * Relies on os.
 */
#ifndef HAKMEM_ARENA_REGION_H
#define HAKMEM_ARENA_REGION_H

#include "arena/layout.h"
#include "arena/slab_header.h"
#include "base/bits.h"

#include <stdatomic.h>

struct superslab {
    uint32_t free;  /* slabs that nobody uses */
    uint32_t dirty; /* those of them that may be resident; the others read as zero */
};

/* avail[k] names the superslabs that have 2^k free slabs in a row. */
#define AVAIL_LEVELS 6

struct region {
    uintptr_t base;
    size_t bytes;
    uint32_t superslabs;           /* all of them, metadata's included */
    uint32_t committed;            /* superslabs below this are usable memory */
    uint32_t first_free_slab;      /* the first after the metadata */
    bool only_huge;                /* made for one huge block: no slab was ever in it */
    struct superslab *states;      /* one for each superslab */
    uint64_t *avail[AVAIL_LEVELS]; /* bitmaps over superslabs */
    uint64_t *dirty;               /* bitmap: superslabs with a dirty slab */
    uint64_t *bitmaps_touched;     /* bitmap: superslabs whose block bitmaps may be resident */
    unsigned char *small_bitmaps;  /* SMALL_BITMAP_BYTES for each slab */
    unsigned char *bitmaps;        /* BITMAP_BYTES for each slab */
    _Atomic uint32_t *page_words;  /* one for each slab, where there is no flat page map */
    uint32_t id;
};

/* The headers of a region's slabs stand at the same place in each region; what is small stands before
 * them, on as few pages as it needs. */
#define REGION_HEADERS_OFFSET ((size_t)32 << 10)

extern INTERNAL _Atomic uint16_t region_ids[(size_t)1 << (ADDRESS_BITS - REGION_GRANULE_SHIFT)];
extern INTERNAL struct region *_Atomic region_table[REGIONS_MAX]; /* 0 is never used */

/* The region that holds `address`, or NULL. Any address may be asked. */
static inline struct region *region_of(uintptr_t address) {
    if (UNLIKELY(address >> ADDRESS_BITS != 0)) {
        return NULL;
    }
    /* relaxed: for a pointer into a block the program's synchronisation has brought the region along,
     * and the table entry is stored before the id; acquire costs nothing here and covers the rest:
     * pairs with the release in region_make */
    uint16_t id = atomic_load_explicit(&region_ids[address >> REGION_GRANULE_SHIFT], memory_order_acquire);
    return atomic_load_explicit(&region_table[id], memory_order_relaxed);
}

static inline struct slab *region_slab(const struct region *region, size_t index) {
    return (struct slab *)(region->base + REGION_HEADERS_OFFSET) + index;
}

static inline size_t region_slab_index(const struct region *region, uintptr_t address) {
    return (address - region->base) >> SLAB_SHIFT;
}

static inline uintptr_t region_superslab_address(const struct region *region, size_t superslab) {
    return region->base + (superslab << SUPERSLAB_SHIFT);
}

static inline _Atomic uint32_t *region_page_word(uintptr_t address) {
    struct region *region = region_of(address);
    return region == NULL ? NULL : &region->page_words[region_slab_index(region, address)];
}

/* A new region with room for a run of `superslabs` whole superslabs, at least; `only_huge` keeps slabs
 * out of it. NULL if the OS refuses. Arena lock held. */
struct region *region_make(size_t superslabs, bool only_huge);
/* Unmaps a region that was only_huge and is wholly free. Arena lock held. */
void region_end(struct region *region);
/* Makes superslabs below `count` usable. Arena lock held. */
bool region_commit(struct region *region, uint32_t count);
/* Recomputes the bitmaps over superslabs after a change of its state. */
void region_note(struct region *region, size_t superslab);

size_t region_reserved_bytes(void);

#endif
