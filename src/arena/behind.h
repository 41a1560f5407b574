/* What lies behind a huge block in its last superslab.
 *
 * Nobody else can have these slabs, but they are dirty or clean as free ones are, and are purged with them.
 * As many as may stay free without the grace are hidden instead, where a block came to lie on them: they do
 * not count as dirty and are not purged, because the next block wants them more often than not. Promises that
 * none is purged while the block takes it. Arena lock held, but for behind_give_up. Relies on waiting and
 * retention.
 */
#ifndef HAKMEM_ARENA_BEHIND_H
#define HAKMEM_ARENA_BEHIND_H

#include "arena/region.h"

/* A huge block has taken a superslab that was free, but for `slabs`, which are behind it: they stay dirty or
 * clean, or are hidden. */
void behind_keep(struct superslab *state, uint32_t slabs);
/* A block becomes shorter: `slabs` of the superslab that it ends in are behind it from now on, and dirty. */
void behind_leave(struct region *region, size_t superslab, uint32_t slabs);
/* Waits until none of `slabs`, as far as they are behind a block, is being purged, letting go of the lock
 * meanwhile; which of them are resident does not change then before the lock is let go again. */
void behind_wait(const struct superslab *state, uint32_t slabs);
/* A block grows into `slabs`, which were behind it; called after behind_wait. */
void behind_take(struct region *region, size_t superslab, uint32_t slabs);
/* The block is freed, or ends before this superslab from now on: what is behind it becomes free. That is
 * clean unless the block's pages are `resident`; else it stays dirty or clean, or all of it is dirty if `all`
 * says so. */
void behind_free(struct region *region, size_t superslab, bool resident, bool all);
/* The slabs behind a huge block do not count as dirty any more, and are not purged while the block lives:
 * their pages are about to be moved with the block's, or are a part of a huge page that the block is to have.
 * No lock held. */
void behind_give_up(struct slab *head);
/* Whether more is hidden than may be by now, because less is in use. To be asked where anything is: small
 * programs never come to the code behind it. */
bool behind_exceeds(void);
/* Hidden slabs count as dirty again, so that they can be purged: those that are more than may be hidden, or
 * all. Cost of the first, where there are such: a look at each superslab. */
void behind_show_excess(void);
void behind_show_all(void);

#endif
