/* Giving back what nobody has come back for.
 *
 * Promises that free memory which was not needed for DECAY_MS is not resident any more, whether or not the
 * program makes another call. Done by one thread of the allocator's own, which exists only while there is
 * something to give back; where that is not wanted or not to be had, by the threads that free. Never before
 * main. Relies on the arena's lock and on os/thread.
 */
#ifndef HAKMEM_ARENA_DECAY_H
#define HAKMEM_ARENA_DECAY_H

#include <stdbool.h>

/* Says whether decay_start is to be called once the lock is let go. Arena lock held; may let go of it. */
bool decay_wanted(void);
void decay_start(void);
/* In a forked child: the thread is the parent's. Arena lock held. */
void decay_lost_by_fork(void);

#endif
