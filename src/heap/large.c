#include "heap/large.h"

#include "arena/arena.h"
#include "arena/huge_pages.h"
#include "arena/tails.h"
#include "arena/testimony.h"
#include "base/text.h"
#include "heap/event.h"
#include "os/os.h"
#include "os/report.h"
#include "profile/sample.h"

#include <string.h>

static struct slab *header_of(const void *p) {
    const struct region *region = region_of((uintptr_t)p);
    return region_slab(region, region_slab_index(region, (uintptr_t)p));
}

static size_t span_of(const struct slab *slab) {
    /* relaxed: only the block's owner changes it */
    return atomic_load_explicit(&slab->span_bytes, memory_order_relaxed);
}

static void set_span(struct slab *slab, size_t bytes) {
    atomic_store_explicit(&slab->span_bytes, bytes, memory_order_relaxed); /* as above */
}

/* Large blocks for each that is reported upwards. */
#define EVENT_INTERVAL 8

/* Returns whether to report it. */
static bool count_event(struct heap *heap, bool huge, bool allocation) {
    struct counters *c = heap != NULL ? &heap->counters : &counters_of_no_heap;
    _Atomic uint64_t *counter = huge ? (allocation ? &c->huge_allocs : &c->huge_frees)
                                     : (allocation ? &c->large_allocs : &c->large_frees);
    if (heap == NULL) {
        count_without_heap(counter);
        return true;
    }
    count(counter, 1);
    return huge || atomic_load_explicit(counter, memory_order_relaxed) % EVENT_INTERVAL == 0; /* its own */
}

static void *allocate_run(struct heap *heap, size_t size, size_t alignment, bool *zero) {
    size_t span = round_up(max_size(size, 1), OS_PAGE_BYTES);
    bool huge = span > LARGE_MAX_BYTES || alignment > SUPERSLAB_BYTES;
    struct taken taken = {false, false};
    struct slab *slab;
    if (huge) {
        slab = arena_take_huge(span, alignment, zero);
    } else {
        unsigned slabs = (unsigned)(round_up(span, SLAB_BYTES) >> SLAB_SHIFT);
        unsigned alignment_slabs = (unsigned)max_size(alignment >> SLAB_SHIFT, 1);
        enum arena_use use = !testimony_expects_filled(span) ? ARENA_USE_UNKNOWN
                             : tails_allow(span)             ? ARENA_FILLS_RUN
                                                             : ARENA_FILLS_PART;
        slab = arena_take(slabs, alignment_slabs, SLAB_LARGE, use, &taken);
        *zero = taken.zero;
    }
    if (slab == NULL) {
        return NULL;
    }
    uintptr_t address = arena_address(slab);
    set_span(slab, span);
    if (!huge) {
        slab->tail_dirty = false;
        if (!*zero || taken.resident) {
            tails_add(slab, span);
        }
        huge_pages_taken(slab, span,
                         (struct huge_pages_found){
                             .clean = *zero, .worth_asking = *zero, .filled = taken.resident, .sparse = 0});
    }
    page_map_set(address, 1, page_word(huge ? PAGE_OWNER_HUGE : PAGE_OWNER_LARGE, 0));
    if (count_event(heap, huge, true)) {
        heap_event(HEAP_EVENT_IN_PROGRAM);
    }
    return (void *)address;
}

void *large_allocate(struct heap *heap, size_t size, size_t alignment, bool *zero) {
    heap_enter(heap);
    void *p = allocate_run(heap, size, alignment, zero);
    heap_leave(heap);
    return p;
}

static const char *lane_of(const struct slab *slab) {
    return arena_run_is_huge(slab) ? "huge" : "large";
}

static struct slab *require_start(const char *kind, const void *p) {
    struct slab *slab = header_of(p);
    if (UNLIKELY(((uintptr_t)p & (SLAB_BYTES - 1)) != 0)) {
        report_misuse(kind, p, lane_of(slab), 0, round_down((uintptr_t)p, SLAB_BYTES));
    }
    return slab;
}

void large_free(struct heap *heap, void *p) {
    struct slab *slab = require_start("invalid free (not the start of a block)", p);
    bool huge = arena_run_is_huge(slab);
    uint8_t expected = SLAB_LARGE;
    /* relaxed: the winner of two frees of the same block goes on, the other is misuse */
    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(&slab->state, &expected, SLAB_INTERNAL,
                                                          memory_order_relaxed, memory_order_relaxed))) {
        report_misuse("double free", p, lane_of(slab), 0, (uintptr_t)p);
    }
    page_map_set((uintptr_t)p, 1, 0);
    bool report = count_event(heap, huge, false); /* before anything that may sleep */
    if (UNLIKELY(slab->sampled)) {
        slab->sampled = false;
        profile_remove((uintptr_t)p);
    }
    if (huge) {
        arena_give_huge(slab, true);
    } else {
        huge_pages_given(slab, true);
        tails_remove(slab, span_of(slab));
        arena_give(slab, span_of(slab), false);
    }
    if (report) {
        heap_event(HEAP_EVENT_IN_PROGRAM);
    }
}

bool large_is_sampled(const void *p) {
    return header_of(p)->sampled;
}

void large_set_sampled(void *p, bool sampled) {
    header_of(p)->sampled = sampled;
}

size_t large_usable_size(const void *p) {
    return span_of(require_start("invalid usable size (not the start of a block)", p));
}

/* A huge block that cannot grow where it stands: its pages move to a larger run. */
static void *move_huge(struct heap *heap, struct slab *slab, void *p, size_t span) {
    bool zero;
    struct slab *target = arena_take_huge(span, SUPERSLAB_BYTES, &zero);
    if (target == NULL) {
        return NULL;
    }
    uintptr_t address = arena_address(target);
    void *moved = (void *)address;
    /* The whole run and not just the span: what is left behind must read as zero throughout. */
    enum os_move move = os_move_pages(p, moved, arena_run_slabs(slab) << SLAB_SHIFT);
    if (move == OS_TARGET_LOST) {
        /* The run stays taken for ever: its addresses may be another mapping's by now. */
        report_fallback(FALLBACK_RUN_LOST, span);
        return NULL;
    }
    bool by_pages = move == OS_MOVED;
    if (by_pages) {
        target->moved = true;
        if (heap != NULL) {
            count(&heap->counters.huge_remaps, 1);
        }
    } else {
        report_fallback(FALLBACK_MOVE_BY_COPY, span_of(slab));
        memcpy(moved, p, span_of(slab));
    }
    size_t had = span_of(slab);
    set_span(target, span);
    page_map_set(address, 1, page_word(PAGE_OWNER_HUGE, 0));
    page_map_set((uintptr_t)p, 1, 0);
    if (by_pages) {
        huge_pages_moved(slab, target);
        huge_pages_grown(target, had, span);
    }
    if (UNLIKELY(slab->sampled)) { /* before the old place may be another block's */
        slab->sampled = false;
        target->sampled = true;
        profile_rename((uintptr_t)p, address);
    }
    arena_give_huge(slab, !by_pages);
    return moved;
}

static void *resize(struct heap *heap, void *p, size_t size) {
    struct slab *slab = require_start("invalid realloc (not the start of a block)", p);
    if (size <= MID_MAX_BYTES) {
        return NULL;
    }
    size_t span = round_up(size, OS_PAGE_BYTES);
    if (!arena_run_is_huge(slab)) {
        if (span > LARGE_MAX_BYTES) {
            return NULL;
        }
        unsigned slabs = (unsigned)(round_up(span, SLAB_BYTES) >> SLAB_SHIFT);
        size_t had = span_of(slab);
        /* What it grows into may have been used before. */
        bool tail_dirty = slab->tail_dirty || span < had || slabs > slab->run_slabs;
        tails_remove(slab, had);
        bool done = slabs == slab->run_slabs || arena_resize(slab, slabs);
        if (done) {
            set_span(slab, span);
        }
        if (tail_dirty) {
            tails_add(slab, span_of(slab));
        }
        return done ? p : NULL;
    }
    if (span <= LARGE_MAX_BYTES) {
        return NULL; /* a block of the large lane again */
    }
    if (arena_resize_huge(slab, span)) {
        return p;
    }
    return move_huge(heap, slab, p, span);
}

void *large_resize(struct heap *heap, void *p, size_t size) {
    heap_enter(heap);
    void *resized = resize(heap, p, size);
    heap_leave(heap);
    return resized;
}

COLD void large_report_stray(const char *action, const void *p) {
    const struct region *region = region_of((uintptr_t)p);
    size_t index = region_slab_index(region, (uintptr_t)p);
    char kind[96];
    const struct slab *slab = region_slab(region, index);
    /* relaxed throughout: the program is about to end; a guess at what it did is all that is wanted */
    bool was_block = ((uintptr_t)p & (SLAB_BYTES - 1)) == 0 &&
                     atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_FREE &&
                     span_of(slab) != 0;
    struct text line = TEXT_ON(kind);
    text_string(&line, action);
    for (size_t back = 0; back <= index; back++) {
        const struct slab *head = region_slab(region, index - back);
        if (atomic_load_explicit(&head->state, memory_order_relaxed) == SLAB_LARGE &&
            arena_run_slabs(head) > back) {
            text_string(&line, " (not the start of a block)");
            report_misuse(kind, p, lane_of(head), 0, arena_address(head));
        }
    }
    if (was_block && strncmp(action, "invalid free", 12) == 0) {
        report_misuse("double free (its slab is no longer in use)", p, "unknown", 0, (uintptr_t)p);
    }
    text_string(&line, " (its slab is not in use)");
    report_misuse(kind, p, "unknown", 0, round_down((uintptr_t)p, SLAB_BYTES));
}
