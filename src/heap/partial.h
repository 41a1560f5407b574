/* The list of a class's partly-used slabs, in a heap.
 *
 * Promises to cost a few stores. All of it is under the heap's lock, but for a look whether there is a first.
 * Relies on slabs to be in one list at a time.
 */
#ifndef HAKMEM_HEAP_PARTIAL_H
#define HAKMEM_HEAP_PARTIAL_H

#include "heap/heap.h"
#include "slab/slab.h"

/* Slabs at the front of the list that are looked at for the best one. */
#define PARTIAL_CHOICES 8

/* The first slab of the list, or NULL. relaxed everywhere: written under the lock; the owner looks at it
 * without, only to see whether the lock is worth taking */
static inline struct slab *partial_first(struct heap *heap, unsigned size_class) {
    return atomic_load_explicit(&heap->bins[size_class].partial, memory_order_relaxed);
}

static inline void partial_set_first(struct heap *heap, unsigned size_class, struct slab *slab) {
    atomic_store_explicit(&heap->bins[size_class].partial, slab, memory_order_relaxed);
}

static inline void partial_count_by(struct heap *heap, struct bin *bin, int change) {
    uint32_t n = atomic_load_explicit(&bin->partial_count, memory_order_relaxed);
    uint32_t all = atomic_load_explicit(&heap->partial_slabs, memory_order_relaxed);
    atomic_store_explicit(&bin->partial_count, n + (uint32_t)change, memory_order_relaxed);
    atomic_store_explicit(&heap->partial_slabs, all + (uint32_t)change, memory_order_relaxed);
}

static inline void partial_add(struct heap *heap, struct slab *slab) {
    struct bin *bin = &heap->bins[slab->size_class];
    struct slab *first = partial_first(heap, slab->size_class);
    slab->previous = NULL;
    slab->next = first;
    *(first != NULL ? &first->previous : &bin->partial_last) = slab;
    partial_set_first(heap, slab->size_class, slab);
    partial_count_by(heap, bin, 1);
    /* relaxed: under the lock; a thread outside only compares */
    atomic_store_explicit(&slab->state, SLAB_PARTIAL, memory_order_relaxed);
}

static inline void partial_remove(struct heap *heap, struct slab *slab) {
    if (slab->previous != NULL) {
        slab->previous->next = slab->next;
    } else {
        partial_set_first(heap, slab->size_class, slab->next);
    }
    struct bin *bin = &heap->bins[slab->size_class];
    *(slab->next != NULL ? &slab->next->previous : &bin->partial_last) = slab->previous;
    slab->next = slab->previous = NULL;
    partial_count_by(heap, bin, -1);
}

/* The fullest of the first few slabs, so that sparse ones drain; NULL if the list is empty. */
static inline struct slab *partial_fullest(struct heap *heap, unsigned size_class) {
    struct slab *best = partial_first(heap, size_class);
    if (best == NULL || size_classes[size_class].words == 1) { /* each has the one word free */
        return best;
    }
    unsigned least = slab_free_words(best);
    struct slab *slab = best->next;
    for (int i = 1; i < PARTIAL_CHOICES && slab != NULL; i++, slab = slab->next) {
        unsigned words = slab_free_words(slab);
        if (words < least) {
            best = slab;
            least = words;
        }
    }
    return best;
}

/* A slab with at least `free_blocks` free blocks, among the first few; NULL if there is none. */
static inline struct slab *partial_sparse(struct heap *heap, unsigned size_class, size_t free_blocks) {
    struct slab *slab = partial_first(heap, size_class);
    for (int i = 0; i < PARTIAL_CHOICES && slab != NULL; i++, slab = slab->next) {
        if (slab_count_free(slab) >= free_blocks) {
            return slab;
        }
    }
    return NULL;
}

/* Puts the first slab behind all others; returns it, or NULL if the list is empty. */
static inline struct slab *partial_rotate(struct heap *heap, unsigned size_class) {
    struct bin *bin = &heap->bins[size_class];
    struct slab *slab = partial_first(heap, size_class);
    if (slab != NULL && slab->next != NULL) {
        partial_remove(heap, slab);
        slab->previous = bin->partial_last;
        bin->partial_last->next = slab;
        bin->partial_last = slab;
        partial_count_by(heap, bin, 1);
    }
    return slab;
}

#endif
