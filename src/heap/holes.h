/* Holes: pages of slabs in use that hold nothing but free blocks.
 *
 * A slab goes back to the arena when its last block is free, which may be never: one block in a hundred that
 * stays pins them all. The other pages of a slab that is a quarter free go back when free blocks in slabs
 * take more than they may (relief.h), by themselves when no block came back to it for a whole period, and all
 * holes when everything is to be given back. Their blocks are handed out as before; the pages are then new.
 *
 * Promises that a page is given back only while nobody can take a block in it: the heap's lock is held, for a
 * few hundred system calls at a time at most. Callers hold no lock but the registry's or the sampling's.
 * Relies on bins, slack and the arena.
 */
#ifndef HAKMEM_HEAP_HOLES_H
#define HAKMEM_HEAP_HOLES_H

#include "heap/heap.h"

/* Any thread: purges holes of all heaps, in slabs to which no block has come back since the call before,
 * until `units` of work of some 100 ns each are done. Returns whether the next call may find more. While
 * another thread is at it, it does nothing and returns true. */
bool holes_purge_idle(unsigned units);
/* Begins a new round of `search` through all heaps, from the one behind id `heap` on. A search is used by one
 * thread at a time. */
void holes_begin_round(struct search *search, uint32_t heap);
/* Whether the round has come to the end of the last heap, or was ended because the OS takes nothing. */
static inline bool holes_round_is_over(const struct search *search) {
    return search->heaps == 0 && search->classes == 0 && search->slabs == 0;
}
/* Goes on with the round of `search`: purges holes in slabs to which blocks came back since they were last
 * looked at for holes, until `wanted` bytes are purged, `units` of work are done, or another thread wants the
 * lock of the heap that it is at. Returns the bytes that it purged. */
size_t holes_purge_some(struct search *search, unsigned units, size_t wanted);
/* In a forked child: releases the lock of holes_purge_idle, which a thread of the parent may have held. */
void holes_turn_lost_by_fork(void);
/* In a forked child: forgets that the OS refused to purge, because what the parent had locked is not locked
 * here. Takes no lock. */
void holes_follow_into_child(void);
/* Any thread: purges all holes of the heap. */
void holes_purge(struct heap *heap);

#endif
