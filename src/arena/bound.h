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

/* Whether so much is in use that a slab more or less does not matter. */
bool arena_is_large(void);
/* In use just now, or a moment ago. */
size_t arena_used_bytes(void);
/* Of what is in use, so many bytes more are free blocks in slabs: less of the rest may stay resident. Any
 * thread; one atomic addition. */
void arena_add_slack(int64_t bytes);
int64_t arena_slack(void);
/* What is in use without these. */
size_t arena_held_bytes(void);
/* Of these, so many bytes more are in stocks, which can go back to their slabs: they and what is dirty may be
 * an eighth more together than what is dirty alone. Any thread; one atomic addition. */
void arena_add_stocked(int64_t bytes);
int64_t arena_stocked(void);
/* By how many bytes stocks may grow. */
int64_t arena_stock_room(void);
/* So many slabs more are, or may be, in runs that heaps keep for their threads: in use for the arena, and
 * free and dirty for all others; what is dirty may be that much less. Any thread; one atomic addition. */
void arena_add_kept(int64_t slabs);
size_t arena_kept_slabs(void);
/* Whether so many more may be, of all that may be free or of what may be without the grace. */
bool arena_may_keep(size_t slabs, bool with_grace);
/* Free memory that may stay resident beside what the program holds, but for the grace (retention.h). */
size_t arena_share_bytes(void);
/* Whether the container is near its limit: nothing is made resident that is not needed. */
bool arena_is_scarce(void);

/* Blocks have come back to slabs in use: purges what is over the bound now, which has fallen. No heap's lock
 * held. */
void arena_look(void);

#endif
