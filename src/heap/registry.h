/* All heaps: who has which, and what becomes of one that nobody has.
 *
 * Promises that a thread which begins gets a heap that another one has left before a new one is made. Any
 * thread. Relies on the table of heaps, bins and magazines.
 */
#ifndef HAKMEM_HEAP_REGISTRY_H
#define HAKMEM_HEAP_REGISTRY_H

#include "heap/heap_table.h"

/* An abandoned heap or a new one, entered: the caller leaves it. NULL if there is no memory or no id. `slot`
 * is in the calling thread's thread_self, or NULL for a heap that is no thread's. The heap of the id `wanted`
 * is preferred, but only if its thread has left it of late: or whoever frees an old block would wake up a
 * heap of which nothing is resident. The heap may be taken from the thread when that has slept through
 * `patience` looks. */
struct heap *heap_acquire(heap_slot *slot, uint32_t patience, uint32_t wanted);
/* A new heap for sampled blocks, which is no thread's and never was; NULL if there is no memory or no id. */
struct heap *heap_make_for_samples(void);
/* Whether there is a heap with this id, and it is abandoned: a hint. */
bool heap_is_abandoned(uint32_t id);
/* The heap is not to be taken from its thread, which may end without notice. */
void heap_keep(struct heap *heap);
/* Takes the calling thread's heap out of its slot, so that nobody else takes it, and returns it, to be
 * abandoned; NULL if the thread has none. */
struct heap *heap_disown(heap_slot *slot);
/* Flushes a heap that its thread has no more, and leaves it for the next thread. If it `may_stay_warm`, it
 * keeps its current slabs of the tiny lane for that one for a while. No lock held. */
void heap_abandon(struct heap *heap, bool may_stay_warm);
/* Gives back those pages of abandoned heaps that hold nothing; of some heaps with each call. Returns whether
 * there may be more. */
bool heap_trim_abandoned(void);
/* Puts the heap's current slabs among the partly-used ones, or releases them. By whoever has the heap. */
void heap_retire_slabs(struct heap *heap);
/* The same for the classes from `first_class` on. */
void heap_retire_slabs_from(struct heap *heap, unsigned first_class);
/* Calls heap_retire_slabs for every abandoned heap. */
void heap_retire_abandoned(void);
/* Background thread, at intervals: calls heap_retire_abandoned if no thread has begun or ended since the last
 * call; true if that is still to be done for a warm heap. */
bool heap_cool_abandoned(void);
/* Around what reclaim.c does to a heap's `owner`. */
void registry_lock(void);
void registry_unlock(void);

/* How many heaps are abandoned: a hint. */
uint32_t heap_abandoned_count(void);
/* How many heaps threads have, or somewhat more; 1 at least. A hint. */
size_t heap_count_in_use(void);
/* With no more of them, what each thread keeps for itself is as much as it has use for. */
#define HEAPS_FEW 16

/* Takes the registry's lock and those of all heaps. */
void heap_lock_for_fork(void);
/* Ends what heap_lock_for_fork began. In the child, every active heap but `mine`, that of the thread that
 * forked, has lost its thread and is abandoned. */
void heap_unlock_after_fork(bool child, struct heap *mine);
/* In a forked child: notes which thread has `mine` now. A part of heap_unlock_after_fork; all that is to be
 * done where no locks were taken. */
void heap_follow_into_child(struct heap *mine);

/* Bytes of the heap itself that are resident, about: without its magazines' arrays, and, where its thread has
 * ended and hak_collect or the decay has been there since, without most of it. Any thread. */
size_t heap_struct_bytes(const struct heap *heap);

#endif
