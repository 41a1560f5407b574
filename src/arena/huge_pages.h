/* Huge pages for large and huge blocks of which the program is known to use every page.
 *
 * Promises that a block gets huge pages only where one of the last few of about its size was found filled, or
 * where the block itself was when it grew, so that resident memory does not swell; that what is resident
 * without being used counts as retained, within the bound; and that free memory asks for no huge pages,
 * whatever it was used for before. Callers hold no lock. Relies on regions and on os.
 */
#ifndef HAKMEM_ARENA_HUGE_PAGES_H
#define HAKMEM_ARENA_HUGE_PAGES_H

#include "arena/region.h"

/* A run was taken for a block of `bytes`; so many of its slabs may be resident. Cost: system calls where it gets
 * huge pages, or where an earlier block is looked at. */
void huge_pages_taken(struct slab *head, size_t bytes, size_t dirty_slabs);
/* Pages are about to be moved to or from the run: what is found there tells nothing. */
void huge_pages_unwatch(struct slab *head);
/* The run is about to be given back. */
void huge_pages_given(struct slab *head);
/* So is that part of it from superslab `first` on, and the rest stays. */
void huge_pages_shortened(struct slab *head, size_t first);
/* A block of `had` bytes now has `bytes`, with the same contents, in the run of `head`. */
void huge_pages_grown(struct slab *head, size_t had, size_t bytes);
/* The run's pages came from another one, and what they ask of the kernel with them. */
void huge_pages_moved(struct slab *from, struct slab *to);
/* The superslabs have been mapped anew. */
void huge_pages_renewed(struct region *region, size_t first, size_t superslabs);

/* Around fork. */
void huge_pages_lock_for_fork(void);
void huge_pages_unlock_after_fork(bool child);

#endif
