/* Superslabs on huge pages, where the program fills them.
 *
 * A superslab that is about to be filled with blocks comes as one huge page: one trap instead of 512, and one
 * entry of the TLB. What of it is not in use yet is free and resident, so it counts against the bound like
 * all that is. The kernel keeps a huge page as long as a part of it is used, so whoever gives a part back has
 * it split first: what leaves the counts leaves the machine, too.
 *
 * Promises that a process has at most DENSE_PART of its memory more for it, and none where the bound has no
 * room. The arena's lock protects the state. Relies on regions, retention and os.
 */
#ifndef HAKMEM_ARENA_DENSE_H
#define HAKMEM_ARENA_DENSE_H

#include "arena/region.h"

/* A superslab comes as a huge page where it is no more than this part of what is in use. */
#define DENSE_PART 8

/* The first slabs of a superslab, of which no page is resident, have been taken and will be filled: all of it
 * is made resident, if that is worth it. Arena lock held, and let go meanwhile. Returns whether it is. */
bool dense_fill(struct region *region, size_t superslab);

/* Slabs that are about to be purged are out of circulation; `whole` says whether they are the whole
 * superslab. Returns whether they must be split off first, by dense_split. Arena lock held. */
bool dense_note_purged(struct region *region, size_t superslab, bool whole);
/* No lock held. */
void dense_split(uintptr_t start, uintptr_t end);

#endif
