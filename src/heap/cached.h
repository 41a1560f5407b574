/* What the magazines of all threads may hold, together.
 *
 * The fast paths count nothing. But a heap's magazines hold no more than they have room for, and no more than
 * came to them on slow paths and did not go back: the smaller of the two, as each heap told it last, is
 * summed over all heaps. Where the sum is too much, the library's thread looks for threads that sleep at
 * once, and often (reclaim.h).
 *
 * Promises no lock, and one atomic addition for each CACHED_STEP_BYTES by which a heap's part changes, at
 * most. Relies on the arena and the registry.
 */
#ifndef HAKMEM_HEAP_CACHED_H
#define HAKMEM_HEAP_CACHED_H

#include "heap/heap.h"

/* What is worth an addition to the sum of all heaps. */
#define CACHED_STEP_BYTES ((int64_t)32 << 10)
/* A sum that is worth a closer look. */
#define CACHED_WORTH_BYTES ((int64_t)8 << 20)

/* The sum of what the heaps have told. relaxed everywhere: a guess is enough */
struct cached {
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t bytes;
};
extern INTERNAL struct cached cached_all;

/* Owner: `blocks` of the class came to the heap's magazines from elsewhere or, if negative, went back. */
static inline void cached_add(struct heap *heap, unsigned size_class, int64_t blocks) {
    heap->taken_bytes += blocks * size_classes[size_class].bytes;
}

/* The heap's part of the sum. relaxed: its owner's, or a guess */
static inline int64_t cached_told(const struct heap *heap) {
    return atomic_load_explicit(&heap->told_bytes, memory_order_relaxed);
}

/* Whoever has the heap: `bytes` are its part of the sum from now on. */
void cached_set(struct heap *heap, int64_t bytes);
/* Owner, now and then: tells the sum what the heap's magazines may hold. */
static inline void cached_tell(struct heap *heap) {
    if (heap->taken_bytes < 0) { /* blocks of slabs that it adopted went back, which came to it uncounted */
        heap->taken_bytes = 0;
    }
    int64_t room = (int64_t)heap->room_bytes;
    int64_t bytes = heap->taken_bytes < room ? heap->taken_bytes : room;
    /* By CACHED_STEP_BYTES more, or less. */
    if ((uint64_t)(bytes - cached_told(heap) + CACHED_STEP_BYTES) > 2 * CACHED_STEP_BYTES) {
        cached_set(heap, bytes);
    }
}

/* Whether all magazines may hold too much, as far as one look tells. Any thread; a guess, as what follows. */
static inline bool cached_may_exceed(void) {
    return UNLIKELY(atomic_load_explicit(&cached_all.bytes, memory_order_relaxed) > CACHED_WORTH_BYTES);
}
/* Whether the sum is too much, which it never is where few threads have heaps, and the library's thread has
 * not been told; it counts as told then. */
bool cached_exceed_anew(void);
/* What the heap's magazines of the classes from `first_class` on hold now. A guess but for the owner. */
int64_t cached_from(const struct heap *heap, unsigned first_class);
/* What all magazines of a heap that a thread has hold now: much less than the sum has of it where the program
 * holds most of what came to them. */
int64_t cached_in(const struct heap *heap);
/* Whether what all magazines hold now is too much. A look at each of them. */
bool cached_exceeds(void);
/* The library's thread knows of what is too much now, and is to be told again only when it has been too much
 * anew. */
void cached_note_seen(bool too_much);

/* In a forked child, whose only heap is `mine`: others may have been about to tell. */
static inline void cached_follow_into_child(const struct heap *mine) {
    atomic_store_explicit(&cached_all.bytes, cached_told(mine), memory_order_relaxed);
}

#endif
