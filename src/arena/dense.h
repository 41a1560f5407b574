/* Superslabs on huge pages, where the program fills them.
 *
 * A superslab that is about to be filled with blocks comes as one huge page: one trap instead of 512, and one
 * entry of the TLB. What of it is not in use yet is free and resident, so it counts against the bound like
 * all that is; and it is kept for others that fill their runs, as long as there is anything else. The kernel
 * keeps a huge page as long as a part of it is used, so whoever gives a part back has it split first: what
 * leaves the counts leaves the machine, too. (Where the kernel cannot split it, because a fork shares it or
 * something pins it, it is tried again with the next part.)
 *
 * Promises that free memory stays within its bound, and that blocks of which little is known lie on huge
 * pages only where no other memory is left. The arena's lock protects the state. Relies on regions,
 * retention, huge_price and os.
 */
#ifndef HAKMEM_ARENA_DENSE_H
#define HAKMEM_ARENA_DENSE_H

#include "arena/region.h"
#include "arena/run.h"

/* Where less is in use (64 MiB), no superslab of small blocks is made resident ahead of use, unless the
 * program had more of them of late: then where this (4 MiB) is in use. */
#define DENSE_USED_SLABS_LEAST ((size_t)1024)
#define DENSE_AGAIN_SLABS_LEAST ((size_t)64)

/* Whether dense_fill need be asked, without a call, where `most_slabs` were in use of late: small programs
 * never come to the code behind it, and it takes no memory of them. */
static inline bool dense_may_be_worth_it(enum arena_use use, size_t used_slabs, size_t most_slabs) {
    return use == ARENA_FILLS_RUN ||
           (use == ARENA_FILLS_SLABS &&
            (used_slabs >= DENSE_USED_SLABS_LEAST ||
             (used_slabs >= DENSE_AGAIN_SLABS_LEAST && used_slabs + SLABS_PER_SUPERSLAB <= most_slabs)));
}

/* Called when a run of `slabs` of a superslab, of which no page is resident, has been taken: makes all of the
 * superslab resident, if that is worth it (dense_may_be_worth_it has said that it may be). Arena lock held,
 * and let go meanwhile. Returns whether it is resident. */
bool dense_fill(struct region *region, size_t superslab, unsigned slabs, enum arena_use use);

/* Of the free slabs of a superslab, only `ahead` are resident ahead of use from now on. Arena lock held. */
void dense_note_ahead(struct superslab *state, uint32_t ahead);
/* The slabs `run` of a superslab, of which some may be resident ahead of use, are taken into use. Arena lock
 * held. */
void dense_note_taken(struct superslab *state, uint32_t run);

/* Superslabs first..first+count-1, made resident as huge pages or of a huge block that is being given back,
 * may lie on huge pages from now on. Arena lock held. */
void dense_note_huge(struct region *region, size_t first, size_t count);

/* Whether the superslab, or the one that holds `address`, may lie on a huge page. Arena lock held. */
bool dense_is_huge(uintptr_t address);
bool dense_superslab_is_huge(const struct region *region, size_t superslab);

/* A superslab has been purged as a whole: it lies on no huge page. Arena lock held. */
void dense_note_purged(struct region *region, size_t superslab);
/* Called before start..end-1 is purged: makes small pages of the huge ones that it has only a part of. No
 * lock held. */
void dense_split(uintptr_t start, uintptr_t end);

#endif
