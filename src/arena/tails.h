/* Tails: what lies behind a large block in its last slab.
 *
 * No other block fits there, so a tail that is resident is lost until its block goes: nearly half of what a
 * block of 66,000 bytes takes. Promises that what all tails together hold stays within a bound that follows
 * from the memory in use: beyond it, blocks come without the pages behind them, or these are given back at
 * once (not where they are a part of a huge page, which blocks only come on while tails hold little); and
 * where the bound has fallen, tails_purge_excess gives back what is over it. Below it they stay, because the
 * next block there may want them. Any thread, no lock held. Relies on retention, purge, waiting and walk.
 */
#ifndef HAKMEM_ARENA_TAILS_H
#define HAKMEM_ARENA_TAILS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab;

/* Whether a block of `span_bytes`, a multiple of pages, may get memory that is resident throughout. */
bool tails_allow(size_t span_bytes);
/* A block of the large lane has been taken, or shortened, to `span_bytes`, and all of its run may be
 * resident. Cost: perhaps a system call. */
void tails_add(struct slab *head, size_t span_bytes);
/* The run of a block of `had_bytes` serves one of `span_bytes`, of as many slabs, and all of it may be
 * resident: sets the span. What that changes is gathered in `later`, which is the caller's, before it counts.
 * The same cost. */
void tails_change(struct slab *head, size_t had_bytes, size_t span_bytes, int64_t *later);
/* What is gathered in `later` counts from now on. */
void tails_settle(int64_t *later);
/* The block of `span_bytes` goes back, or gets another size: its tail counts no more. Waits while another
 * thread is giving it back. Returns whether it may have been resident. */
bool tails_remove(struct slab *head, size_t span_bytes);

/* Whether the tails hold more than they may, because the bound has fallen, and some of it may be worth a
 * purge. Cost: a few loads. */
bool tails_exceed(void);
/* Purges tails of any thread's blocks until they hold what they may, `most` of them at most, in at most as
 * many times four superslabs; the next call goes on behind these. Cost: a look at each slab's header there,
 * and a system call for each tail. Returns whether there is more to do. */
bool tails_purge_excess(size_t most);
/* Purges all tails, also those on huge pages. */
void tails_purge_all(void);

#endif
