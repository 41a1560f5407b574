/* The table of all heaps, and how one is made.
 *
 * Promises that an id is one heap's for ever, and that a heap in the table stays there. Relies on the arena.
 */
#ifndef HAKMEM_HEAP_HEAP_TABLE_H
#define HAKMEM_HEAP_HEAP_TABLE_H

#include "heap/heap.h"

#define HEAP_FIRST_ID 1

/* The heap of no thread: all zero, so that its magazines are empty and full and its tag is nobody's. */
extern INTERNAL struct heap heap_of_no_thread;

/* The heap with this id; NULL if there never was one. Any thread. */
struct heap *heap_by_id(uint32_t id);
/* One more than the largest id that a heap has; from HEAP_FIRST_ID to there, all ids have heaps. Any
 * thread. */
uint32_t heap_id_limit(void);

/* A new heap, in the table and in `state`; NULL if there is no memory or no id. Registry's lock held. */
struct heap *heap_make(enum heap_state state);

/* The id of the heap of sampled blocks; 0 if there is none. relaxed everywhere: see sampling_owns */
extern INTERNAL _Atomic uint32_t heap_id_of_samples;

/* How many heaps are in which state; the heap of samples is in none. Any thread; a statistic. */
struct heap_counts {
    uint64_t active, abandoned, shared;
};
void heap_count_states(struct heap_counts *out);

/* Where the room for the heap's magazines' arrays begins. */
static inline void **heap_first_slot(struct heap *heap) {
    return (void **)(void *)(heap + 1);
}

#endif
