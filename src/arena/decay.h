/* Giving back what nobody has come back for.
 *
 * Promises that free memory which was not needed for one and a half DECAY_MS is not resident any more, and
 * that what was needed within one is not purged for being idle. In a program that has threads, and in one
 * that takes much again of what it was relieved of or has most of its memory free, this is done by one of the
 * allocator's own, whether or not the program makes another call; it exists only while there is something to
 * give back. Where that is not wanted or not to be had, in a forked child that has not freed anything yet,
 * and in a process that was not made by fork, it is done by the threads that free. Never before main. Relies
 * on the arena's lock and on os/thread.
 */
#ifndef HAKMEM_ARENA_DECAY_H
#define HAKMEM_ARENA_DECAY_H

#include "base/bits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Says what is to be done outside this folder; once, before anything else here. `run` is what the library's
 * thread does: it calls decay_begun, then decay_tick after each decay_period_ms, and ends when that says so.
 * `in_passing` is what a thread of the program does once in each period, where the library's is not: it may
 * take heaps' locks, and little time, because the registry's or the sampling's may be held. `relieve` returns
 * some of what is stocked and of the holes, likewise in passing, where what may be free has shrunk; it says
 * whether the next thread that frees something is to go on. */
void decay_set_work(void (*run)(void), void (*in_passing)(void), bool (*relieve)(void));
/* Milliseconds between two ticks: half of DECAY_MS, 10 at least. */
uint64_t decay_period_ms(void);
/* Called by the library's thread: gives back what was free throughout the last two periods. False if the
 * thread is to end, which it does not while there is `more` to do for it elsewhere. No lock held. */
bool decay_tick(bool more);
/* Called by the library's thread when it ends before decay_tick says so. No lock held. */
void decay_stop(void);
/* Notes that the program takes again what was given back, so that it gets the library's thread although it
 * has none of its own. Any thread. */
void decay_note_breath(void);
/* Whether a program that has no threads has shown so much, and gets it. */
bool decay_wants_thread(void);
/* To be called before what only a process of one thread can do, or a fork that leaves no handler a chance:
 * where the program has no threads, the library's ends, if it is there, and none is started for a moment; it
 * ends, too, where the program has ended those that it had.
 * False if it waits for what the caller, in a signal handler, has interrupted. No lock held. */
bool decay_make_way(void);
/* Starts the library's thread unless it is there, is not wanted, or may not be started yet. No lock held. */
void decay_request(void);
/* Called by the library's thread before anything else: decay_is_on from here on. */
void decay_begun(void);
/* Whether the library's thread is there. In the order of all seq_cst operations: whoever leaves something for
 * it and then sees true may count on it, because it looks once more when this has become false. */
bool decay_is_on(void);

/* What a thread that has freed memory has to do once it has let go of the arena's lock. */
enum decay_work { DECAY_NOTHING, DECAY_START, DECAY_TICK, DECAY_RELIEVE };
/* Says what is due, with the arena's lock held. The caller has to do that by decay_do, with the lock let
 * go. */
enum decay_work decay_due(void);
void decay_do(enum decay_work work);
/* Ticks in a row, by threads of a program that has no others, that found most of what is free in slabs idle
 * since the tick before. Stays as it is when nobody ticks. relaxed everywhere: a hint */
extern INTERNAL _Atomic uint32_t decay_idle_ticks;
/* To be called where something may be to give back that is not the arena's: starts the thread, or does the
 * work of a period, as if the arena had much that is dirty. No lock held. */
void decay_look(void);
/* To be called now and then in programs without threads, which may come to nothing else of this: decay_look,
 * if as much is free as may stay in a small program. Does nothing in others. No lock held. */
void decay_look_if_much(void);

/* Before fork, no lock held: purges what may stay for the library's thread only, because the child begins
 * without it. */
void decay_prepare_for_fork(void);
/* In a forked child: forgets the library's thread, which is the parent's. Arena lock held. */
void decay_lost_by_fork(void);

#endif
