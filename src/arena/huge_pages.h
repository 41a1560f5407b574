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
    struct zeros zeros; /* the longest stretch of it that is not resident */
    bool worth_asking;  /* so little is resident that pages ahead of use save something */
    bool filled;        /* all of it is resident, and reads as zero */
    uint64_t sparse; /* of the first 64 superslabs of a huge run, those of which a few slabs are resident */
};

/* To be called when the run of `head` was taken for a large or huge block of `bytes`; `found` says what of it
 * is resident. Gets it pages ahead of use where it will be filled. Cost: system calls where it gets them, or
 * where an earlier block is looked at. */
void huge_pages_taken(struct slab *head, size_t bytes, struct huge_pages_found found);
/* The run of `head` is about to be given back; `resident` is false if its pages were moved away. */
void huge_pages_given(struct slab *head, bool resident);
/* The slabs behind the first `bytes` of the run of `head` are about to be given back; the others stay. */
void huge_pages_shortened(struct slab *head, size_t bytes);
/* A huge block of `had` bytes now has `bytes`, with the same contents, in the run of `head`. */
void huge_pages_grown(struct slab *head, size_t had, size_t bytes);
/* The program asks for huge pages somewhere: from now on each block that is given back asks no more. */
void huge_pages_note_program_asks(void);
/* It asks for them in the block of `head`, whose run is as long as one at least; the caller has the block,
 * perhaps with other threads. */
void huge_pages_note_asked(struct slab *head);
/* The pages of the run of `from`, with what they ask of the kernel, were moved to that of `to`. */
void huge_pages_moved(struct slab *from, struct slab *to);

#endif
