/* A run of slabs by its first header: where it lies, how long it is, and what it is for.
 *
 * Promises what the header says, to whoever has the run or the arena's lock. Relies on regions.
 */
#ifndef HAKMEM_ARENA_RUN_H
#define HAKMEM_ARENA_RUN_H

#include "arena/region.h"

/* What is known of what the program does with a run. */
enum arena_use {
    ARENA_USE_OWN, /* the allocator's, for good: it is no part of what is in use, by which the bound goes */
    ARENA_USE_UNKNOWN,
    ARENA_FILLS_SLABS, /* it fills one slab of small blocks after the other */
    ARENA_FILLS_RUN,   /* it fills large blocks of this size */
    /* It fills blocks of this size but for their tails: the run may take slabs that are resident ahead of
     * use, but no superslab is made resident for it. */
    ARENA_FILLS_PART,
};

/* The header of the slab that holds `address`, which lies in a region. */
static inline struct slab *arena_header(uintptr_t address) {
    const struct region *region = region_of(address);
    return region_slab(region, region_slab_index(region, address));
}

/* The address of the slab that the header `slab` is of. */
static inline uintptr_t arena_address(const struct slab *slab) {
    const struct region *region = region_of((uintptr_t)slab);
    return region->base + (region_slab_number(region, slab) << SLAB_SHIFT);
}

/* Whether a run consists of whole superslabs, as arena_take_huge gives them. */
static inline bool arena_run_is_huge(const struct slab *head) {
    return head->run_slabs == 0;
}

/* Usable bytes of a large or huge block, for whoever has the block. relaxed: only that thread changes
 * them. */
static inline size_t arena_span(const struct slab *head) {
    return atomic_load_explicit(&head->span_bytes, memory_order_relaxed);
}
/* Sets what arena_span returns, for whoever has the block. relaxed: see arena_span. */
static inline void arena_set_span(struct slab *head, size_t bytes) {
    atomic_store_explicit(&head->span_bytes, bytes, memory_order_relaxed);
}

/* Length of a run in slabs. */
static inline size_t arena_run_slabs(const struct slab *head) {
    return !arena_run_is_huge(head) ? head->run_slabs
                                    : round_up(arena_span(head), SUPERSLAB_BYTES) >> SLAB_SHIFT;
}

#endif
