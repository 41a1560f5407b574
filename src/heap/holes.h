/* Holes: pages of slabs in use that hold nothing but free blocks.
 *
 * A slab goes back to the arena when its last block is free, which may be never: one block in a hundred that
 * stays pins them all. The other pages of a slab that is a quarter free go back when free blocks in slabs
 * take more than they may (slack.h), by themselves when no block came back to it for a whole period, and all
 * holes when everything is to be given back. Their blocks are handed out as before; the pages are then new.
 *
 * Promises that a page is given back only while nobody can take a block in it: the heap's lock is held, for a
 * few hundred system calls at a time. Callers hold no lock but the registry's or the sampling's. Relies on
 * bins, slabs and the arena.
 */
#ifndef HAKMEM_HEAP_HOLES_H
#define HAKMEM_HEAP_HOLES_H

#include "heap/heap.h"

/* Those of all heaps, where nothing has changed since the call before, as far as `units` of work go: each of
 * some 100 ns. Returns whether there may be more the next time. */
bool holes_purge_idle(unsigned units);
/* What a search found: bytes purged, and of some of these holes' pages how many were resident. */
struct holes_found {
    size_t bytes;
    size_t pages, resident;
};
/* The same for those with blocks that came back since, as far as the search of the caller's heap has not come
 * in this round, which begins behind `heap`, and until `wanted` bytes are purged or `units` are done. The
 * round is over when it has come to the last heap, or the OS takes nothing. */
void holes_begin_round(struct search *search, uint32_t heap);
static inline bool holes_round_is_over(const struct search *search) {
    return search->heaps == 0 && search->classes == 0 && search->slabs == 0;
}
struct holes_found holes_purge_some(struct search *search, unsigned units, size_t wanted);
/* Whether the kernel may be asked what is resident. */
bool holes_may_ask(void);
/* Purges nothing: looks at some holes of the next slab that has any. */
struct holes_found holes_measure_some(struct search *search, unsigned units);
/* In a forked child: whoever was at it is the parent's. */
void holes_turn_lost_by_fork(void);
/* Likewise: what its parent had locked, so that the OS refused it, is not locked here. Takes no lock. */
void holes_follow_into_child(void);
/* Blocks are being taken of a slab that had holes of so many bytes: if that is often, it was not worth it. */
void holes_note_taken(size_t bytes);
/* All that were. */
uint64_t holes_taken_again(void);
/* All that a heap has. Any thread. */
void holes_purge(struct heap *heap);

#endif
