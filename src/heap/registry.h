/* All heaps: who has which, and what becomes of one that nobody has.
 *
 * Promises that a thread which begins gets a heap that another one has left before a new one is made. Any
 * thread. Relies on the table of heaps, bins and magazines.
 */
#ifndef HAKMEM_HEAP_REGISTRY_H
#define HAKMEM_HEAP_REGISTRY_H

#include "heap/heap_table.h"

/* An abandoned heap or a new one; NULL if there is no memory or no id. `slot` is in the calling thread's
 * thread_self, or NULL for a heap that is no thread's. That of the id `wanted` if its thread has left it of
 * late, or whoever frees an old block would wake up a heap of which nothing is resident. Returns it entered:
 * the caller leaves it. It is taken from the thread when that has slept through `patience` looks. */
struct heap *heap_acquire(heap_slot *slot, uint32_t patience, uint32_t wanted);
/* A new heap for sampled blocks, which is no thread's and never was; NULL as above. */
struct heap *heap_make_for_samples(void);
/* Whether there is such a heap, and no thread has it: a hint. */
bool heap_is_abandoned(uint32_t id);
/* The heap is not to be taken from its thread, which may end without notice. */
void heap_keep(struct heap *heap);
/* The calling thread gives up its heap, which nobody will take from it any more; NULL if it has none. */
struct heap *heap_disown(heap_slot *slot);
/* Its thread ends, or will do without: flushes it and leaves it for the next. A warm one keeps slabs for it.
 */
void heap_abandon(struct heap *heap, bool may_stay_warm);
/* Gives back the pages of abandoned heaps that hold nothing. */
void heap_trim_abandoned(void);
/* Puts its current slabs among the partly-used ones, or releases them. */
void heap_retire_slabs(struct heap *heap);
/* The same for every abandoned heap. */
void heap_retire_abandoned(void);
/* The same if no thread has begun or ended since the last call; true if there is something left to be done.
 */
bool heap_cool_abandoned(void);
/* Around what reclaim.c does to a heap. */
void registry_lock(void);
void registry_unlock(void);

/* A hint. */
bool heap_any_abandoned(void);

void heap_lock_for_fork(void);
/* In the child, every heap but `mine` has lost its thread. */
void heap_unlock_after_fork(bool child, struct heap *mine);
/* In a child: its heap is the same thread's. The above does it, too; where no locks were needed it is all. */
void heap_follow_into_child(struct heap *mine);

#endif
