/* The table of all heaps, and how one is made.
 *
 * Promises that an id is one heap's for ever, and that a heap in the table stays there. Relies on the arena.
 */
#ifndef HAKMEM_HEAP_HEAP_TABLE_H
#define HAKMEM_HEAP_HEAP_TABLE_H

#include "heap/heap.h"

#define HEAP_FIRST_ID 1

/* NULL if there never was one. Any thread. */
struct heap *heap_by_id(uint32_t id);
/* Ids up to limit-1 may exist. Any thread. */
uint32_t heap_id_limit(void);

/* A new one; NULL if there is no memory or no id. One thread at a time: under the registry's lock. */
struct heap *heap_make(enum heap_state state);

/* Where the first of its magazines' arrays begins. */
static inline void **heap_first_slot(struct heap *heap) {
    return (void **)(void *)(heap + 1);
}

#endif
