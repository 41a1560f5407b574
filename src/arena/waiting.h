/* Slabs out of circulation: while they are purged or filled the arena's lock is let go, and nobody finds
 * them.
 *
 * Promises whoever must see all that is free (a fork, a search that is about to fail) that it all comes back,
 * however many threads go on purging. Arena lock held, but let go of by whoever waits. Relies on os/wait.
 */
#ifndef HAKMEM_ARENA_WAITING_H
#define HAKMEM_ARENA_WAITING_H

#include <stdbool.h>

/* Called before and after the lock is let go while slabs are out of circulation: arena_wait_for_purge waits
 * for the second call. */
void arena_begin_purging(void);
void arena_end_purging(void);

/* Waits until nobody is purging: all that is free is in circulation then. */
void arena_wait_for_purge(void);
/* Waits until a purge has ended. False if none is under way. */
bool arena_wait_for_one_purge(void);
/* Waits until nobody is in arena_wait_for_purge. Before a purge that others follow. */
void arena_let_waiters_pass(void);

#endif
