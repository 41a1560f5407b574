/* What lies behind a huge block in its last superslab.
 *
 * Nobody else can have these slabs, but they are dirty or clean as free ones are, and are purged with them.
 * As many as may stay free without the grace are hidden instead, where a block came to lie on them: they
 * count as the block's, because the next one wants them more often than not. Promises that none is purged
 * while the block takes it. Arena lock held, but for behind_give_up. Relies on purge and retention.
 */
#ifndef HAKMEM_ARENA_BEHIND_H
#define HAKMEM_ARENA_BEHIND_H

#include "arena/region.h"

/* A huge block of a superslab that was free leaves these of its slabs, as they are. */
void behind_keep(struct superslab *state, uint32_t slabs);
/* A block becomes shorter: its last slabs are behind it, and resident. */
void behind_leave(struct region *region, size_t superslab, uint32_t slabs);
/* Lets go of the lock until none of these is being purged; which of them is resident does not change then
 * before the lock is let go again. */
void behind_wait(const struct superslab *state, uint32_t slabs);
/* A block grows into these, after behind_wait. */
void behind_take(struct region *region, size_t superslab, uint32_t slabs);
/* The block goes, or ends before this superslab. If its pages are `resident`, so may be what is behind it;
 * all of it where `all` says so. */
void behind_free(struct region *region, size_t superslab, bool resident, bool all);
/* What is behind a block counts no more, and is not purged while the block lives: its pages are about to be
 * moved with the block's, or are a part of a huge page that the block is to have. No lock held. */
void behind_give_up(struct slab *head);
/* Nothing is hidden any more. */
void behind_show_all(void);

#endif
