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
#include <stdint.h>

/* What the thread does; it calls decay_tick after each decay_period_ms and ends when that says so. */
void decay_set_thread(void (*run)(void));
uint64_t decay_period_ms(void);
/* Gives back what was free throughout the last period. False if the thread is to end, which it does not while
 * there is `more` to do for it elsewhere. */
bool decay_tick(bool more);
/* Starts the thread if it may be. */
void decay_request(void);

/* Says whether decay_start is to be called once the lock is let go. Arena lock held; may let go of it. */
bool decay_wanted(void);
void decay_start(void);
/* In a forked child: the thread is the parent's. Arena lock held. */
void decay_lost_by_fork(void);

#endif
