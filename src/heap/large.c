#include "heap/large.h"

#include "arena/arena.h"
#include "arena/clear.h"
#include "arena/huge_pages.h"
#include "arena/tails.h"
#include "arena/testimony.h"
#include "heap/event.h"
#include "heap/runs.h"
#include "heap/sampling.h"
#include "os/os.h"

/* Large blocks that are allocated, or freed, for each that is reported upwards. */
#define EVENT_INTERVAL 32

/* Counts an allocation or a free; returns whether to report it upwards. */
static inline bool count_event(struct heap *heap, bool huge, bool allocation) {
    struct counters *c = heap != NULL ? &heap->counters : &counters_of_no_heap;
    _Atomic uint64_t *counter = huge ? (allocation ? &c->huge_allocs : &c->huge_frees)
                                     : (allocation ? &c->large_allocs : &c->large_frees);
    if (heap == NULL) {
        count_without_heap(counter);
        return true;
    }
    count(counter, 1);
    /* relaxed: its own */
    return huge || atomic_load_explicit(counter, memory_order_relaxed) % EVENT_INTERVAL == 0;
}

static inline void note(struct heap *heap, bool huge, bool allocation) {
    if (count_event(heap, huge, allocation)) {
        heap_event(HEAP_EVENT_IN_PROGRAM);
    }
}

static NOINLINE void *allocate_run(struct heap *heap, size_t size, size_t alignment, bool grows,
                                   struct zeros *zeros) {
    size_t span = large_span(size);
    bool huge = span > LARGE_MAX_BYTES || alignment > SUPERSLAB_BYTES;
    struct taken taken = {false, false};
    struct slab *slab;
    if (huge) {
        if (heap != NULL) {
            (void)runs_return(heap); /* they may lie where the block has room */
        }
        slab = arena_take_huge(span, alignment, grows, zeros);
    } else {
        unsigned alignment_slabs = (unsigned)max_size(alignment >> SLAB_SHIFT, 1);
        enum arena_use use = !testimony_expects_filled(span) ? ARENA_USE_UNKNOWN
                             : tails_allow(span)             ? ARENA_FILLS_RUN
                                                             : ARENA_FILLS_PART;
        slab = arena_take(large_slabs(span), alignment_slabs, SLAB_LARGE, use, &taken);
        *zeros = (struct zeros){0, taken.zero ? span : 0};
    }
    if (slab == NULL) {
        return NULL;
    }
    uintptr_t address = arena_address(slab);
    arena_set_span(slab, span);
    slab->resized = false;
    if (!huge) {
        if (!taken.zero || taken.resident) {
            tails_add(slab, span);
        }
        huge_pages_taken(
            slab, span,
            (struct huge_pages_found){
                .zeros = *zeros, .worth_asking = taken.zero, .filled = taken.resident, .sparse = 0});
    }
    page_map_set(address, 1, page_word(huge ? PAGE_OWNER_HUGE : PAGE_OWNER_LARGE, 0));
    note(heap, huge, true);
    return (void *)address;
}

/* A block on a run that the heap has kept, or NULL. Nothing has to be done but what the lengths differ in. */
static inline void *allocate_kept(struct heap *heap, size_t size) {
    size_t span = large_span(size);
    uintptr_t block = runs_take(heap, large_slabs(span));
    if (block == 0) {
        return NULL;
    }
    struct slab *slab = arena_header(block);
    slab->ahead = slab->resized = false;
    size_t had = arena_span(slab);
    if (span != had) {
        heap_enter(heap); /* tails_change may sleep */
        tails_change(slab, had, span, &heap->runs.tails_later_bytes);
        heap_leave(heap);
    }
    /* relaxed: the caller publishes the block */
    atomic_store_explicit(&slab->state, SLAB_LARGE, memory_order_relaxed);
    return (void *)block;
}

void *large_allocate(struct heap *heap, size_t size, size_t alignment, bool grows, struct zeros *zeros) {
    bool may_be_kept = heap != NULL && size <= LARGE_MAX_BYTES && alignment <= SLAB_BYTES;
    void *p = may_be_kept ? allocate_kept(heap, size) : NULL;
    if (LIKELY(p != NULL)) {
        *zeros = (struct zeros){0, 0};
        note(heap, false, true);
        return p;
    }
    heap_enter(heap);
    p = allocate_run(heap, size, alignment, grows, zeros);
    heap_leave(heap);
    return p;
}

/* Has a block that is about to be freed tell whether the program filled it (testimony.h), and ask for huge
 * pages no more. */
static NOINLINE void end_watch(struct heap *heap, struct slab *slab) {
    heap_enter(heap);
    huge_pages_given(slab, true);
    heap_leave(heap);
}

static RARE void free_sampled(struct heap *heap, struct slab *slab, void *p) {
    heap_enter(heap);
    slab->sampled = false;
    (void)sampling_forget(p);
    heap_leave(heap);
}

/* Has a block from calloc that is about to be freed tell whether the program left it nearly untouched
 * (clear.h). */
static COLD void end_cleared(struct heap *heap, struct slab *slab) {
    heap_enter(heap);
    clear_note_freed(slab);
    heap_leave(heap);
}

NOINLINE void large_take_word(const char *action, const void *p) {
    _Atomic uint32_t *word = page_map_word((uintptr_t)p);
    uint32_t huge = page_word(PAGE_OWNER_HUGE, 0);
    /* relaxed: the winner of two that free or resize the same block goes on, the other is misuse */
    if (UNLIKELY(word == NULL || !atomic_compare_exchange_strong_explicit(
                                     word, &huge, 0, memory_order_relaxed, memory_order_relaxed))) {
        large_report_gone(action, p);
    }
}

void large_free(struct heap *heap, void *p, uint32_t word) {
    bool huge = page_word_owner(word) == PAGE_OWNER_HUGE;
    if (UNLIKELY(huge)) {
        large_take_word("invalid free", p);
    }
    struct slab *slab = large_head("invalid free", p);
    uint8_t expected = SLAB_LARGE;
    /* relaxed: the winner of two frees of the same block goes on, the other is misuse */
    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(&slab->state, &expected, SLAB_KEPT,
                                                          memory_order_relaxed, memory_order_relaxed))) {
        large_report_misuse("double free", p);
    }
    bool report = count_event(heap, huge, false); /* before anything that may sleep */
    if (UNLIKELY(slab->sampled)) {
        free_sampled(heap, slab, p);
    }
    if (UNLIKELY(slab->cleared)) {
        end_cleared(heap, slab);
    }
    if (UNLIKELY(huge)) {
        arena_give_huge(slab, true);
    } else {
        if (UNLIKELY(slab->watched || slab->huge_pages)) {
            end_watch(heap, slab);
        }
        if (heap == NULL || UNLIKELY(!runs_put(heap, slab, (uintptr_t)p))) {
            runs_give_back(slab, (uintptr_t)p);
        }
    }
    if (report) {
        heap_event(HEAP_EVENT_IN_PROGRAM);
    }
}

bool large_is_sampled(const void *p) {
    return arena_header((uintptr_t)p)->sampled;
}

RARE void large_set_sampled(void *p, bool sampled) {
    arena_header((uintptr_t)p)->sampled = sampled;
}

bool large_is_resized(const void *p) {
    return arena_header((uintptr_t)p)->resized;
}

void large_note_resized(void *p) {
    arena_header((uintptr_t)p)->resized = true;
}

size_t large_usable_size(const char *action, const void *p) {
    return arena_span(large_head(action, p));
}
