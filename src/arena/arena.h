/* The arena: runs of slabs, and what happens to them when nobody needs them.
 *
 * Promises that free memory which stays resident is at most what retention_bound says, purged
 * by the thread that exceeds it, and that what lies idle is given back (decay.h); that a run said to be zero
 * reads as zero; that a run is given to one taker only. One lock, taken once for each run, never held
 * while pages are given back or faulted in. Relies on regions and on the options.
 */
#ifndef HAKMEM_ARENA_ARENA_H
#define HAKMEM_ARENA_ARENA_H

#include "arena/region.h"
#include "os/purge.h"

/* Once, before any other call. */
void arena_init(void);
/* Reserves the address space of the first region now: what the program asks of the system later (limits,
 * locked memory) would refuse it. */
void arena_reserve_first(void);

/* What is known of memory that was taken. */
struct taken {
    bool zero;     /* it reads as zero */
    bool resident; /* it does, and is wholly resident */
};

/* What is known of what the program does with a run. */
enum arena_use {
    ARENA_USE_UNKNOWN,
    ARENA_FILLS_SLABS, /* it fills one slab of small blocks after the other */
    ARENA_FILLS_RUN,   /* it fills large blocks of this size */
    ARENA_FILLS_PART, /* likewise, but for a tail: takes what is resident ahead of use, and gets no more of it
                       */
};

/* A run of `slabs` (1..32) within one superslab, on a multiple of `alignment_slabs` (a power of two up
 * to 32). Of its first header, state, length and span are set and the rest is as it was left. Where it will
 * be filled, its superslab may become resident (dense.h). NULL if the OS gives nothing. */
struct slab *arena_take(unsigned slabs, unsigned alignment_slabs, enum slab_state state, enum arena_use use,
                        struct taken *taken);
/* Gives a run back, the first `used_bytes` of it perhaps resident; `bitmap_touched` says whether its big
 * block bitmap is, too (it must be zero). */
void arena_give(struct slab *head, size_t used_bytes, bool bitmap_touched);

/* A run of whole superslabs of at least `bytes`, on a multiple of `alignment` (a power of two), as
 * SLAB_LARGE. */
struct slab *arena_take_huge(size_t bytes, size_t alignment, struct zeros *zeros);
/* `resident` says whether pages may be behind it. */
void arena_give_huge(struct slab *head, bool resident);

/* Makes a run longer or shorter where it stands. False if its neighbours are not free (growing only).
 * The span is the caller's to set. */
bool arena_resize(struct slab *head, unsigned slabs);
bool arena_resize_huge(struct slab *head, size_t bytes);

/* Whether a run is of whole superslabs. */
static inline bool arena_run_is_huge(const struct slab *head) {
    return head->run_slabs == 0;
}

/* Usable bytes of a large or huge block; its owner's. */
static inline size_t arena_span(const struct slab *head) {
    return atomic_load_explicit(&head->span_bytes, memory_order_relaxed); /* only the owner changes it */
}
static inline void arena_set_span(struct slab *head, size_t bytes) {
    atomic_store_explicit(&head->span_bytes, bytes, memory_order_relaxed); /* as above */
}

/* Length of a run in slabs. */
static inline size_t arena_run_slabs(const struct slab *head) {
    return !arena_run_is_huge(head) ? head->run_slabs
                                    : round_up(arena_span(head), SUPERSLAB_BYTES) >> SLAB_SHIFT;
}

/* The header of the slab that an address is in; that is in a region. */
static inline struct slab *arena_header(uintptr_t address) {
    const struct region *region = region_of(address);
    return region_slab(region, region_slab_index(region, address));
}

/* Gives back ranges of pages within runs that are in use; `done` says which of them the OS has taken. */
#define ARENA_HOLES_MOST 64
void arena_purge_holes(const struct iovec *holes, size_t count, bool *done);

/* Purges everything that is free and resident. */
void arena_purge_all(void);

/* The address of a header's slab. */
static inline uintptr_t arena_address(const struct slab *slab) {
    const struct region *region = region_of((uintptr_t)slab);
    return region->base + ((size_t)(slab - region_slab(region, 0)) << SLAB_SHIFT);
}

struct arena_figures {
    uint64_t used_slabs, dirty_slabs;
    uint64_t purges, purged_bytes, decayed_bytes, hole_bytes, superslabs_opened, superslabs_dense,
        regions_created;
    uint64_t retained_limit_bytes;
};
void arena_figures(struct arena_figures *out);

/* Around fork. */
void arena_lock_for_fork(void);
void arena_unlock_after_fork(bool child);
/* In a child: what its parent had locked is not locked here. Takes no lock; a part of the above. */
void arena_follow_into_child(void);

#endif
