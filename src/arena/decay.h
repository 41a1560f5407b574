/* Giving back what nobody has come back for.
 *
 * Promises that free memory which was not needed for DECAY_MS is not resident any more. In a program that has
 * threads this is done by one of the allocator's own, whether or not the program makes another call; it
 * exists only while there is something to give back. Where that is not wanted or not to be had, in a
 * forked child that has not freed anything yet, and in a process that was not made by fork, it is done by the
 * threads that free. Never before main.
 * Relies on the arena's lock and on os/thread.
 */
#ifndef HAKMEM_ARENA_DECAY_H
#define HAKMEM_ARENA_DECAY_H

#include <stdbool.h>
#include <stdint.h>

/* What the thread does; it calls decay_tick after each decay_period_ms and ends when that says so. And what a
 * thread of the program does in passing, once in each period, where there is none: it may take heaps' locks,
 * and little time, because the registry's or the sampling's may be held. `relieve` returns some of what is
 * stocked and of the holes, likewise in passing, where what may be free has shrunk; it says whether the next
 * thread that frees something is to go on. */
void decay_set_work(void (*run)(void), void (*in_passing)(void), bool (*relieve)(void));
uint64_t decay_period_ms(void);
/* Gives back what was free throughout the last period. False if the thread is to end, which it does not while
 * there is `more` to do for it elsewhere. */
bool decay_tick(bool more);
/* The thread ends before decay_tick says so. */
void decay_stop(void);
/* Starts the thread if it may be. */
void decay_request(void);
/* It says first of all that it is there. */
void decay_begun(void);
/* Whether it is. In the order of all seq_cst operations: whoever leaves something for it and then sees true
 * may count on it, because it looks once more when it is no longer there. */
bool decay_is_on(void);

/* What a thread that has freed memory has to do once it has let go of the arena's lock. */
enum decay_work { DECAY_NOTHING, DECAY_START, DECAY_TICK, DECAY_RELIEVE };
/* Arena lock held. Whoever is told to do something does it. */
enum decay_work decay_due(void);
void decay_do(enum decay_work work);
/* There may be something to give back that is not the arena's: as if there were much that is. No lock held.
 */
void decay_look(void);

/* Before fork, no lock held: the child begins without the thread, and with no more than may stay there. */
void decay_prepare_for_fork(void);
/* In a forked child: the thread is the parent's. Arena lock held. */
void decay_lost_by_fork(void);

#endif
