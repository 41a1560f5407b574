#include "heap/adopt.h"

#include "arena/bound.h"
#include "heap/bins.h"
#include "heap/registry.h"
#include "os/program.h"

/* Most heaps that are looked at for one slab. */
#define LOOKED_AT_MOST 32
/* Smaller blocks are not taken from a heap that a thread has: they would share cache lines with that
 * thread's, and what it frees of the others would all be another thread's. */
#define SHARED_LEAST_BYTES 256
/* Free blocks in slabs below which only heaps that no thread has are asked: a program that only grows would
 * look in vain. */
#define SLACK_WORTH_A_LOOK ((int64_t)1 << 20)

/* Whether `from` may have a slab of the class to give; heaps that a thread has may only if `any`. What lies
 * on one cache line is read first. relaxed, all: a guess is enough */
static bool may_have(const struct heap *from, unsigned size_class, bool any) {
    uint32_t state = atomic_load_explicit(&from->state, memory_order_relaxed);
    return (state == HEAP_ABANDONED || (state == HEAP_ACTIVE && any)) && bin_has_partial(from) &&
           (bin_count_partial(from, size_class) > 0 ||
            atomic_load_explicit(&from->inbox, memory_order_relaxed) != NULL);
}

bool adopt_slab(struct heap *heap, unsigned size_class) {
    /* relaxed: set before the heap is used */
    if (atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_OF_SAMPLES) {
        return false;
    }
    uint32_t last = heap_id_limit() - 1;
    uint32_t looks = (uint32_t)min_size(last, LOOKED_AT_MOST);
    /* A thread of which libc does not know takes none of another's: see alone.h. */
    bool any = size_classes[size_class].bytes >= SHARED_LEAST_BYTES && arena_slack() >= SLACK_WORTH_A_LOOK &&
               os_program_has_threads();
    if (!any && heap_abandoned_count() == 0) {
        return false;
    }
    for (uint32_t i = 0; i < looks; i++) {
        heap->asked_last = heap->asked_last % last + 1;
        struct heap *from = heap_by_id(heap->asked_last);
        if (from != heap && may_have(from, size_class, any) && bin_adopt(heap, size_class, from)) {
            heap->asked_last--; /* it may have more: it is asked first next time */
            return true;
        }
    }
    return false;
}
