/* Tails: what lies behind a large block in its last slab.
 *
 * No other block fits there, so a tail that is resident is lost until its block goes: nearly half of what a
 * block of 66,000 bytes takes. Promises that what all tails together hold stays within a bound that follows
 * from the memory in use: beyond it, blocks come without the pages behind them, or these are given back at
 * once (not where they are a part of a huge page, which blocks only come on while tails hold little). Below
 * it they stay, because the next block there may want them. Any thread, no lock held. Relies on retention and
 * purge.
 */
#ifndef HAKMEM_ARENA_TAILS_H
#define HAKMEM_ARENA_TAILS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slab;

/* Whether a block of `span_bytes`, a multiple of pages, may get memory that is resident throughout. */
bool tails_allow(size_t span_bytes);
/* A block of the large lane has been taken, or shortened, and all of its run may be resident. Cost: perhaps a
 * system call. */
void tails_add(struct slab *head, size_t span_bytes);
/* The run of a block of `had_bytes` serves another one, of `span_bytes`, in as many slabs: all of it may be
 * resident. What that changes in the sum is gathered in `later`, which is the caller's, before it counts.
 * Cost: perhaps a system call. */
void tails_change(struct slab *head, size_t had_bytes, size_t span_bytes, int64_t *later);
/* A block of `span_bytes` goes back, or is about to get another size: its tail does not count any more. */
void tails_remove(struct slab *head, size_t span_bytes);

#endif
