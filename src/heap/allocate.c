#include "heap/allocate.h"

#include "arena/clear.h"
#include "heap/collect.h"
#include "heap/fast.h"
#include "heap/foreign.h"
#include "heap/large.h"
#include "heap/magazine.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/shared_heap.h"
#include "os/report.h"

#include <errno.h>
#include <string.h>

COLD void *out_of_memory(size_t size) {
    report_fallback(FALLBACK_OUT_OF_MEMORY, size);
    errno = ENOMEM;
    return NULL;
}

/* A block of the class or, if `may_borrow`, of a larger one, which need not have the alignment of this one;
 * NULL if there is no memory. */
static inline void *pop(struct heap *heap, unsigned size_class, bool may_borrow) {
    struct magazine *m = &heap->magazines[size_class];
    if (LIKELY(m->top != m->base)) {
        return *--m->top;
    }
    return heap_refill(heap, size_class, may_borrow);
}

/* As allocate_class, for a thread that has no heap. */
static COLD void *allocate_shared(unsigned size_class, size_t size, bool may_borrow) {
    struct heap *heap = shared_heap_lock();
    if (heap == NULL) {
        return NULL;
    }
    bool sampled = sampling_due(size) && sampling_decide(size);
    void *p = pop(heap, size_class, may_borrow);
    shared_heap_unlock();
    return sampled && p != NULL ? sampling_exchange(p, size_class, size) : p;
}

static NOINLINE void *allocate_perhaps_sampled(struct heap *heap, unsigned size_class, size_t size,
                                               bool may_borrow) {
    heap_enter(heap); /* listeners of heap_event may sleep */
    bool sampled = sampling_decide(size);
    heap_leave(heap);
    void *p = pop(heap, size_class, may_borrow);
    return sampled && p != NULL ? sampling_exchange(p, size_class, size) : p;
}

static inline void *allocate_class(unsigned size_class, size_t size, bool may_borrow) {
    struct heap *heap = thread_heap_get();
    if (UNLIKELY(heap == NULL)) {
        return allocate_shared(size_class, size, may_borrow);
    }
    if (UNLIKELY(sampling_due(size))) {
        return allocate_perhaps_sampled(heap, size_class, size, may_borrow);
    }
    return pop(heap, size_class, may_borrow);
}

/* A large or huge block. For sampling it counts with its whole pages, as it does when it grows. */
static void *allocate_large(size_t size, size_t alignment, bool grows, struct zeros *zeros) {
    void *p = large_allocate(thread_heap_get(), size, alignment, grows, zeros);
    if (p == NULL) {
        return NULL;
    }
    size_t bytes = large_span(size);
    if (UNLIKELY(sampling_due(bytes)) && sampling_decide(bytes)) {
        large_set_sampled(p, sampling_note_large(p, bytes, bytes));
    }
    return p;
}

/* As malloc, but does not collect and try again: NULL if there is no memory. */
static ALWAYS_INLINE void *serve(size_t size) {
    struct zeros zeros;
    if (LIKELY(size <= MID_MAX_BYTES)) {
        if (UNLIKELY(thread_heap_now() == &heap_of_no_thread && runtime_libc_forced())) {
            return foreign_malloc(size);
        }
        return allocate_class(size_class_for(size), size, true);
    }
    if (size > REQUEST_MAX_BYTES) {
        return NULL;
    }
    return UNLIKELY(runtime_libc_forced()) ? foreign_malloc(size)
                                           : allocate_large(size, SLAB_BYTES, false, &zeros);
}

static void *serve_aligned(size_t alignment, size_t size, struct zeros *zeros) {
    return size <= MID_MAX_BYTES && alignment <= SLAB_BYTES
               ? allocate_class(size_class_aligned(size, alignment), size, false)
               : allocate_large(size, alignment, false, zeros);
}

/* Collects what threads hold back, for that may be all that is missing; true if another try is worth it. */
static bool may_try_again(size_t size) {
    return size <= REQUEST_MAX_BYTES && !runtime_libc_forced() && heap_collect_for(size);
}

static COLD void *serve_at_last(size_t size) {
    void *p = may_try_again(size) ? serve(size) : NULL;
    return p != NULL ? p : out_of_memory(size);
}

static COLD void *serve_aligned_at_last(size_t alignment, size_t size, struct zeros *zeros) {
    size_t least = max_size(size, alignment);
    void *p = may_try_again(least) ? serve_aligned(alignment, size, zeros) : NULL;
    return p != NULL ? p : out_of_memory(least);
}

NOINLINE void *allocate(size_t size) {
    void *p = serve(size);
    return LIKELY(p != NULL) ? p : serve_at_last(size);
}

void *allocate_grown(size_t size) {
    struct zeros zeros;
    void *p = allocate_large(size, SLAB_BYTES, true, &zeros);
    return LIKELY(p != NULL) ? p : serve_at_last(size);
}

NOINLINE void *allocate_mid(size_t size) {
    if (UNLIKELY(size - TINY_MAX_BYTES - 1 >= MID_MAX_BYTES - TINY_MAX_BYTES)) {
        return allocate(size);
    }
    return fast_pop(&thread_heap_now()->magazines[size_class_for_mid(size)], size);
}

void *allocate_aligned(size_t alignment, size_t size) {
    if (LIKELY(size - 1 < MID_MAX_BYTES) && LIKELY(alignment <= SLAB_BYTES)) {
        void *block;
        if (LIKELY(fast_take(&thread_heap_now()->magazines[size_class_aligned(size, alignment)], size,
                             &block))) {
            return block;
        }
    }
    if (size > REQUEST_MAX_BYTES || alignment > REQUEST_MAX_BYTES) {
        return out_of_memory(max_size(size, alignment));
    }
    if (runtime_libc_forced()) {
        return foreign_memalign(alignment, size);
    }
    struct zeros zeros;
    void *p = serve_aligned(alignment, size, &zeros);
    return p != NULL ? p : serve_aligned_at_last(alignment, size, &zeros);
}

static void *clear(unsigned char *block, size_t size, struct zeros zeros) {
    size_t begin = min_size(zeros.begin, size);
    size_t end = min_size(zeros.end, size);
    if (UNLIKELY(size - (end - begin) >= CLEARED_LEAST_BYTES) && clear_by_purge((uintptr_t)block, zeros)) {
        return block;
    }
    memset(block, 0, begin);
    memset(block + end, 0, size - end);
    return block;
}

void *allocate_zeroed(size_t size) {
    if (size <= MID_MAX_BYTES) {
        void *p = allocate_mid(size);
        return p == NULL ? NULL : memset(p, 0, size);
    }
    if (size > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    if (runtime_libc_forced()) {
        return foreign_calloc(1, size);
    }
    struct zeros zeros;
    void *p = allocate_large(size, SLAB_BYTES, false, &zeros);
    p = p != NULL ? p : serve_aligned_at_last(SLAB_BYTES, size, &zeros);
    return p == NULL ? NULL : clear(p, size, zeros);
}

size_t request_good_size(size_t size) {
    if (size <= MID_MAX_BYTES) {
        return size_classes[size_class_for(size)].bytes;
    }
    size_t bytes = round_up(size, OS_PAGE_BYTES); /* 0 where that is past the last number */
    return bytes > REQUEST_MAX_BYTES ? 0 : bytes;
}
