/* The fast paths: everything that most calls do.
 *
 * Promises no call, no saved register and no atomic read-modify-write before the block is handed over;
 * whatever else may be needed is behind one tail call that takes the original argument, and what is in
 * registers by then. Relies on the magazines, the page map and the thread's heap.
 */
#ifndef HAKMEM_HEAP_FAST_H
#define HAKMEM_HEAP_FAST_H

#include "heap/allocate.h"
#include "heap/release.h"

/* Takes a block for a request of `size` off the magazine, whose class serves it; false if the magazine is
 * empty or a sample may be due. */
static ALWAYS_INLINE bool fast_take(struct magazine *m, size_t size, void **block) {
    void **top = m->top;
    if (UNLIKELY(top == m->base)) {
        return false;
    }
    thread_self.sample_left -= (int64_t)size;
    if (UNLIKELY(thread_self.sample_left < 0)) {
        return false;
    }
    m->top = top - 1;
    *block = top[-1];
    return true;
}

static ALWAYS_INLINE void *fast_pop(struct magazine *m, size_t size) {
    void *block;
    return LIKELY(fast_take(m, size, &block)) ? block : allocate(size);
}

static ALWAYS_INLINE void *fast_allocate(size_t size) {
    if (UNLIKELY(size > TINY_MAX_BYTES)) {
        return allocate_mid(size);
    }
    return fast_pop((struct magazine *)(void *)((char *)thread_heap_now() + tiny_class_offsets[size]), size);
}

/* Every multiple of an alignment up to TINY_MAX_BYTES is served by a class of multiples: for those above 64
 * it has just that size. */
#define FAST_ALIGNMENT_MOST TINY_MAX_BYTES

/* As allocate_aligned. */
static ALWAYS_INLINE void *fast_allocate_aligned(size_t alignment, size_t size) {
    if (UNLIKELY(alignment > FAST_ALIGNMENT_MOST) || UNLIKELY(size - 1 > TINY_MAX_BYTES - 1)) {
        return allocate_aligned(alignment, size);
    }
    uint16_t offset = tiny_class_offsets[round_up(size, alignment)];
    struct magazine *m = (struct magazine *)(void *)((char *)thread_heap_now() + offset);
    void *block;
    /* Not as fast_pop, whose refill may bring a block of another class. */
    return LIKELY(fast_take(m, size, &block)) ? block : allocate_aligned(alignment, size);
}

/* A block of this heap, and of no other, has a page-map word that differs from the heap's tag only in
 * its class offset; every other pointer, NULL too, gives an offset beyond the magazines. */
static ALWAYS_INLINE void fast_release(void *p) {
    uintptr_t index = (uintptr_t)p >> SLAB_SHIFT;
    if (UNLIKELY(index >= page_map_limit)) {
        release(p);
        return;
    }
    struct heap *heap = thread_heap_now();
    /* relaxed: as in page_map_get */
    uint32_t offset = atomic_load_explicit(&page_map_words[index], memory_order_relaxed) ^ heap->tag;
    if (UNLIKELY(offset >= sizeof heap->magazines)) {
        release_of_others(p, offset, heap);
        return;
    }
    struct magazine *m = (struct magazine *)(void *)((char *)heap + offset);
    void **top = m->top;
    if (UNLIKELY(top == m->end)) {
        release(p);
        return;
    }
    *top = p;
    m->top = top + 1;
}

#endif
