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
#include "arena/run.h"

/* Once, before any other call. */
void arena_init(void);
/* Reserves the address space of the first region now: what the program asks of the system later (limits,
 * locked memory) would refuse it. */
void arena_reserve_first(void);

/* What is known of memory that was taken. */
struct taken {
    bool zero;     /* it reads as zero */
    bool resident; /* it reads as zero, and all of it is resident */
};

/* Takes a run of `slabs` (1..32) within one superslab, on a multiple of `alignment_slabs` (a power of two up
 * to 32). Of its first header, state, length and span are set and the rest is as it was left. Depending on
 * `use`, its superslab may become resident (dense.h). `taken` gets what is known of the run. NULL if the OS
 * gives nothing. */
struct slab *arena_take(unsigned slabs, unsigned alignment_slabs, enum slab_state state, enum arena_use use,
                        struct taken *taken);
/* Gives a run back, of which the first `used_bytes` may be resident; `bitmap_touched` says whether its block
 * bitmap may be, where that is larger than SMALL_BITMAP_BYTES (it must be zero). */
void arena_give(struct slab *head, size_t used_bytes, bool bitmap_touched);

/* Takes a run of whole superslabs of at least `bytes`, on a multiple of `alignment` (a power of two), as
 * SLAB_LARGE; for a block that `grows`, rather where it can go on growing. `zeros` gets what of it surely
 * reads as zero. NULL if the OS gives nothing. */
struct slab *arena_take_huge(size_t bytes, size_t alignment, bool grows, struct zeros *zeros);
/* Gives a run of whole superslabs back; `resident` is false if its pages were moved away. */
void arena_give_huge(struct slab *head, bool resident);

/* Make a run longer or shorter where it stands. False if the slabs behind it are not free (growing only). The
 * span then is the caller's to set after arena_resize; arena_resize_huge sets it to `bytes`. */
bool arena_resize(struct slab *head, unsigned slabs);
bool arena_resize_huge(struct slab *head, size_t bytes);

struct arena_figures {
    uint64_t used_slabs, dirty_slabs;
    uint64_t purges, purged_bytes, decayed_bytes, hole_bytes, superslabs_opened, superslabs_dense,
        regions_created;
    uint64_t retained_limit_bytes;
    bool is_scarce; /* less may stay than elsewhere, because the container is short of memory */
};
void arena_figures(struct arena_figures *out);

/* Before fork: takes the locks of this folder, and waits until nobody is purging. After it, in both
 * processes: lets go of them. */
void arena_lock_for_fork(void);
void arena_unlock_after_fork(bool child);
/* In a child: forgets that the parent had locked memory, which is not locked here. Takes no lock;
 * arena_unlock_after_fork calls it. */
void arena_follow_into_child(void);

#endif
