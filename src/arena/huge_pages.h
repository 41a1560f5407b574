/* Huge pages, and pages ahead of use, for blocks that the program is known to fill.
 *
 * Promises that a block gets them only where enough earlier ones of about its size were found filled
 * (testimony.h), or where the block itself was when it grew, so that resident memory does not swell; and that
 * free memory asks for none, whatever it was used for before. Superslabs that several blocks share are the
 * matter of dense.h. While huge pages are slow (huge_price.h), blocks go without. Callers hold no lock.
 * Relies on testimony, huge_price, regions and os.
 */
#ifndef HAKMEM_ARENA_HUGE_PAGES_H
#define HAKMEM_ARENA_HUGE_PAGES_H

#include "arena/region.h"

/* What of a run may be resident when it is taken. */
struct huge_pages_found {
    struct zeros zeros; /* nothing */
    bool worth_asking;  /* little enough for pages ahead of use to save something */
    bool filled;        /* all of it is, though it reads as zero */
    uint64_t sparse;    /* of the first 64 superslabs of a huge run, those of which a few slabs are */
};

/* A run was taken for a large or huge block of `bytes`. Cost: system calls where it gets pages ahead of use,
 * or where an earlier block is looked at. */
void huge_pages_taken(struct slab *head, size_t bytes, struct huge_pages_found found);
/* The run is about to be given back; `resident` is false if its pages were moved away. */
void huge_pages_given(struct slab *head, bool resident);
/* So are the slabs of it behind the first `bytes`, which stay. */
void huge_pages_shortened(struct slab *head, size_t bytes);
/* A huge block of `had` bytes now has `bytes`, with the same contents, in the run of `head`. */
void huge_pages_grown(struct slab *head, size_t had, size_t bytes);
/* The run's pages came from another one, and what they ask of the kernel with them. */
void huge_pages_moved(struct slab *from, struct slab *to);

#endif
