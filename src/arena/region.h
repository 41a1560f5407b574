/* Regions: where address space comes from, and the way from an address to its metadata.
 *
 * Promises that a region, once made, is never unmapped while a slab header in it may still be read. Making
 * and ending regions is the arena's, under its lock. Relies on the index of regions, the page map and os.
 */
#ifndef HAKMEM_ARENA_REGION_H
#define HAKMEM_ARENA_REGION_H

#include "arena/layout.h"
#include "arena/region_index.h"
#include "arena/retention.h"
#include "arena/slab_header.h"
#include "base/bits.h"

#include <stdatomic.h>

struct superslab {
    uint32_t free;   /* slabs that nobody uses */
    uint32_t behind; /* slabs that nobody can use, because a huge block ends before them: behind.h */
    uint32_t hidden; /* of those behind, the ones that may be resident and do not count as dirty */
    uint32_t dirty; /* of those free or behind, the ones that may be resident; other free ones read as zero */
    uint32_t ahead; /* those of the dirty ones that are so only because of dense_fill */
    uint32_t out;   /* dirty slabs out of circulation for a purge: dirty again if it fails */
    uint32_t noted; /* bit k: the k-th bitmap of the region names this superslab */
    struct missed missed;
};

/* The longest stretch of a run that reads as zero, because nothing of it is resident; in bytes from the run's
 * start on. */
struct zeros {
    size_t begin, end;
};

/* avail[k] names the superslabs that have 2^k free slabs in a row, without those that are ahead. */
#define AVAIL_LEVELS 6

struct region {
    uintptr_t base;
    /* A multiple of SUPERSLAB_BYTES. Under the lock, and falls there by region_cut; read without it by an
     * atomic load, relaxed: whoever has an address of another region in what this one has given back comes
     * later than that. */
    size_t bytes;
    uint32_t superslabs;      /* all of them, metadata's included */
    uint32_t committed;       /* superslabs below this are usable memory */
    uint32_t first_free_slab; /* the first after the metadata */
    bool only_huge;           /* made for one huge block: no slab was ever in it */
    bool locked;              /* what is committed of it is resident, in a program that has locked memory */
    struct superslab *states; /* one for each superslab */
    union {
        struct {
            uint64_t *avail[AVAIL_LEVELS]; /* bitmaps over superslabs */
            uint64_t *dirty;               /* bitmap: superslabs with a dirty slab that is not ahead */
            uint64_t *ahead;               /* bitmap: those with one that is */
        };
        uint64_t *noted[AVAIL_LEVELS + 2]; /* the bitmaps before, in the order of a superslab's `noted` */
    };
    uint64_t *huge;                 /* bitmap: superslabs that came as one huge page; see dense.h */
    uint64_t *bitmaps_touched;      /* bitmap: superslabs whose block bitmaps may be resident */
    uint8_t *head_back;             /* for each slab of a run, how far back the first is; 0 if not in use */
    unsigned char *small_bitmaps;   /* SMALL_BITMAP_BYTES for each slab */
    unsigned char *bitmaps;         /* for each superslab MID_BITMAP_BYTES and BITMAP_BYTES for each slab */
    _Atomic uint32_t *page_words;   /* one for each slab: in the flat page map, or in the metadata */
    struct region *next, *previous; /* in the arena's list, oldest first */
};

/* The headers of a region's slabs stand at the same place in each region; what is small stands before
 * them, on as few pages as it needs. */
#define REGION_HEADERS_OFFSET ((size_t)32 << 10)

static inline struct slab *region_slab_at(uintptr_t base, size_t index) {
    return (struct slab *)(base + REGION_HEADERS_OFFSET) + index;
}

static inline struct slab *region_slab(const struct region *region, size_t index) {
    return region_slab_at(region->base, index);
}

static inline size_t region_slab_number(const struct region *region, const struct slab *slab) {
    return (size_t)(slab - region_slab(region, 0));
}

static inline size_t region_slab_index(const struct region *region, uintptr_t address) {
    return (address - region->base) >> SLAB_SHIFT;
}

/* The first slab of the run that holds the address of a block. */
static inline size_t region_run_index(const struct region *region, uintptr_t address) {
    size_t index = region_slab_index(region, address);
    return index - region->head_back[index];
}

/* Notes for each slab of a run, from slab `first` on, how far back the first is; takes that back unless it is
 * `used`. */
static inline void region_mark_run(struct region *region, size_t first, unsigned slabs, bool used) {
    for (unsigned i = 1; i < slabs; i++) {
        region->head_back[first + i] = used ? (uint8_t)i : 0;
    }
}

/* What a superslab's block bitmaps above SMALL_BITMAP_BYTES take. */
#define SUPERSLAB_BITMAPS_BYTES (SLABS_PER_SUPERSLAB * (MID_BITMAP_BYTES + BITMAP_BYTES))

/* Where the block bitmap, of `bytes`, lies of the run that begins with slab `index`. */
static inline void *region_bitmap(const struct region *region, size_t index, size_t bytes) {
    if (bytes <= SMALL_BITMAP_BYTES) {
        return region->small_bitmaps + index * SMALL_BITMAP_BYTES;
    }
    unsigned char *start = region->bitmaps + index / SLABS_PER_SUPERSLAB * SUPERSLAB_BITMAPS_BYTES;
    size_t slab = index % SLABS_PER_SUPERSLAB;
    return bytes <= MID_BITMAP_BYTES ? start + slab * MID_BITMAP_BYTES
                                     : start + SLABS_PER_SUPERSLAB * MID_BITMAP_BYTES + slab * BITMAP_BYTES;
}

static inline uintptr_t region_superslab_address(const struct region *region, size_t superslab) {
    return region->base + (superslab << SUPERSLAB_SHIFT);
}

/* A new region with room for a run of `superslabs` whole superslabs, at least; `only_huge` keeps slabs
 * out of it. NULL if the OS refuses. Arena lock held. */
struct region *region_make(size_t superslabs, bool only_huge);
/* A run of more superslabs than this gets a region of its own where no region has room. */
size_t region_shared_superslabs(void);
/* Nobody finds the region any more, which is wholly free, and of which nobody can have a slab: it was
 * only_huge, or the lock is held since it was made. Arena lock held. */
void region_forget(const struct region *region);
/* Unmaps a region that was forgotten. */
void region_unmap(struct region *region);
/* How many superslabs to make usable: some more than are needed; just these, which are resident then, because
 * their region is locked; or just these, and locks them. */
enum region_commit { REGION_COMMITS_MORE, REGION_IS_LOCKED, REGION_LOCKS };
/* Makes superslabs below `count` usable. False if the OS refuses. Arena lock held. */
bool region_commit(struct region *region, uint32_t count, enum region_commit how);
/* Gives back the address space behind the region's usable superslabs, unless a region may be as large as that
 * where address space is limited. True if it was given back. Arena lock held. */
bool region_cut(struct region *region);
/* Brings the region's bitmaps up to date after the state of `superslab` has changed. Arena lock held. */
void region_note(struct region *region, size_t superslab);

/* Address space that all regions take. No lock needed. */
size_t region_reserved_bytes(void);

#endif
