/* How much free memory may stay resident, and what counts against it.
 *
 * In use, for the arena, is what it has given out; for the program a part of that is free: free blocks in
 * slabs (slack), those of them in stocks, and runs that heaps keep for their threads. What may stay is a
 * share of what the program holds, and the grace (retention.h); what these others take of it, free slabs may
 * not.
 *
 * Promises that sums are told by one atomic addition, by any thread, and that a look at them takes no lock.
 * Relies on retention, decay and purge.
 */
#ifndef HAKMEM_ARENA_BOUND_H
#define HAKMEM_ARENA_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether so much is in use (ARENA_LARGE_SLABS) that a slab more or less does not matter. */
bool arena_is_large(void);
/* Adds `bytes`, perhaps negative, to the slack: what of the memory in use is free blocks in slabs, so that
 * less of the rest may stay resident. Any thread; one atomic addition. */
void arena_add_slack(int64_t bytes);
int64_t arena_slack(void);
/* Bytes that the program holds just now, or a moment ago: what is in use without slack and kept runs. */
size_t arena_held_bytes(void);
/* Adds `bytes`, perhaps negative, to what of the slack is in stocks, which can go back to their slabs: they
 * and what is dirty may be an eighth more together than what is dirty alone. Any thread; one atomic
 * addition. */
void arena_add_stocked(int64_t bytes);
int64_t arena_stocked(void);
/* By how many bytes stocks may grow; negative if they are too large. */
int64_t arena_stock_room(void);
/* Adds `slabs`, perhaps negative, to those that are, or may be, in runs that heaps keep for their threads: in
 * use for the arena, and free and dirty for all others; what is dirty may be that much less. Any thread; one
 * atomic addition. */
void arena_add_kept(int64_t slabs);
size_t arena_kept_slabs(void);
/* Whether `slabs` more may be kept in runs: all that is kept is within the share or, `with_grace`, within
 * that and the grace. Never while memory is scarce. */
bool arena_may_keep(size_t slabs, bool with_grace);
/* Bytes of free memory that may stay resident, without the grace (retention.h): a share of what the program
 * holds. */
size_t arena_share_bytes(void);
/* Whether the container is near its limit: nothing is made resident that is not needed. */
bool arena_is_scarce(void);
/* Bytes of free slabs and of free blocks in others that may be resident in addition where memory is not
 * scarce, without any grace. */
size_t arena_more_without_scarcity(void);

/* The arena's own, from here to arena_unlock_within_bound: its lock is held. */

/* How many free slabs may be resident: a share of what the program holds, and the grace, less what is kept in
 * runs. The second is what it would be without the library's thread. */
size_t arena_bound(void);
size_t arena_bound_without_thread(void);
/* Begins a period: the peak of use is counted anew. First, the grace is forgotten if that is due (below), or,
 * without the library's thread, falls in proportion, as the peak has fallen since the period before. */
void arena_begin_period(void);
/* For so many periods, twice DECAY_MS and more, the grace stays though no more is free than may be without
 * it: a program that breathes holds for a while what it has. */
#define GRACE_REMEMBERED_PERIODS 5
/* Then what was learned before is forgotten, but for 8 MiB, though nothing of it lies idle. */
void arena_forget_grace(void);
/* Whether stocks, kept runs and dirty slabs are together more than may be. */
bool arena_has_too_much_stocked(void);
/* Purges what is over the bound, letting go of the lock for the system calls; releases it; and does what
 * decay_due says is due. */
void arena_unlock_within_bound(void);

/* To be called when blocks have come back to slabs in use, by which the bound falls: purges what is over it
 * now. No heap's lock held. */
void arena_look(void);

#endif
