#include "heap/ahead.h"

#include "heap/fresh.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/os.h"

/* Most runs that a testimony serves for. */
#define TRUST_MOST 8
/* This part of a run's pages may be missing where it counts as filled. */
#define MISSING_PART 32
/* Blocks that were never handed out, but are resident, may take this part of what free ones may. */
#define AHEAD_PART 4
/* The tail of a run may be this part of it where it is to lie on a huge page, all of which is resident. */
#define TAIL_PART 64

static struct witness *witness_of(struct heap *heap, unsigned size_class) {
    unsigned spaced = size_class < SPACED_CLASSES ? size_class : size_class - EXACT_CLASSES;
    return &heap->witnesses[spaced - (SPACED_CLASSES - WITNESSES)];
}

/* Whether runs of the class leave next to nothing of a superslab to nobody: neither slabs nor tails. */
static bool fills_superslabs(const struct size_class *c) {
    size_t run_bytes = (size_t)c->run_slabs << SLAB_SHIFT;
    size_t tail = run_bytes - (size_t)c->blocks * c->bytes;
    return SLABS_PER_SUPERSLAB % c->run_slabs == 0 && tail <= run_bytes / TAIL_PART;
}

static size_t pages_of_blocks(const struct size_class *c) {
    return round_up((size_t)c->blocks * c->bytes, OS_PAGE_BYTES) / OS_PAGE_BYTES;
}

static bool is_filled(uintptr_t run, size_t pages) {
    return os_missing_pages((void *)run, pages * OS_PAGE_BYTES) <= pages / MISSING_PART;
}

/* The first run that was filled serves for none, but has the second serve for two, the third for twice as
 * many; as many are left out after runs that were not. */
static void hear(struct witness *w, bool filled) {
    int more = 2 * w->trust;
    if (filled) {
        w->trust = (int8_t)(w->trust <= 0 ? 1 : more < TRUST_MOST ? more : TRUST_MOST);
        w->turns = (uint8_t)(w->trust > 1 ? w->trust : 0);
    } else {
        w->trust = (int8_t)(w->trust >= 0 ? -1 : more > -TRUST_MOST ? more : -TRUST_MOST);
        w->turns = (uint8_t)(-w->trust - 1);
    }
}

RARE enum arena_use ahead_use_of_larger(struct heap *heap, unsigned size_class) {
    const struct size_class *c = &size_classes[size_class];
    struct witness *w = witness_of(heap, size_class);
    if (!option_bool(OPTION_HUGE_PAGES)) {
        return ARENA_USE_UNKNOWN; /* nor is the kernel asked: a sandbox may end the program for that */
    }
    if (w->turns == 0 && w->run != 0) {
        hear(w, is_filled((uintptr_t)w->run << SLAB_SHIFT, pages_of_blocks(c)));
        w->run = 0;
    }
    if (w->turns == 0) {
        return ARENA_USE_UNKNOWN;
    }
    w->turns--;
    return w->trust <= 0 ? ARENA_USE_UNKNOWN : fills_superslabs(c) ? ARENA_FILLS_SLABS : ARENA_FILLS_PART;
}

/* Whether so many bytes more of blocks that were never handed out may be resident. Many threads may have
 * begun runs of many classes, which they then leave at that. */
static inline bool may_come(size_t bytes) {
    /* relaxed: a guess */
    int64_t then = atomic_load_explicit(&fresh_resident, memory_order_relaxed) + (int64_t)bytes;
    return then < FRESH_LEAST_BYTES || then <= slack_allowed() / AHEAD_PART;
}

COLD bool ahead_of_run(struct heap *heap, const struct slab *slab, enum arena_use use) {
    const struct size_class *c = &size_classes[slab->size_class];
    uintptr_t start = arena_address(slab);
    size_t pages = pages_of_blocks(c);
    if (use != ARENA_USE_UNKNOWN && may_come(pages * OS_PAGE_BYTES) &&
        os_populate((void *)start, pages * OS_PAGE_BYTES)) {
        count(&heap->counters.populated_slabs, c->run_slabs);
        count(&heap->counters.faults_avoided, pages - 1);
        return true;
    }
    if (c->bytes > OS_PAGE_BYTES) {
        struct witness *w = witness_of(heap, slab->size_class);
        w->run = (uint32_t)(start >> SLAB_SHIFT);
        w->copies = (uint8_t)min_size(c->blocks, UINT8_MAX);
    }
    return false;
}

/* Of the last clean run of the block's class, most blocks have not been handed out before; once as many have
 * been copied to as it has, none. */
static RARE void populate_for_copy(struct heap *heap, const void *to, size_t bytes) {
    uint32_t word = page_map_get(to);
    unsigned size_class = page_word_class(word);
    if (!page_word_is_class(word) || size_classes[size_class].bytes <= OS_PAGE_BYTES) {
        return;
    }
    struct witness *w = witness_of(heap, size_class);
    uintptr_t run = (uintptr_t)w->run << SLAB_SHIFT;
    uintptr_t start = round_down((uintptr_t)to, OS_PAGE_BYTES);
    size_t length = round_up((uintptr_t)to + bytes, OS_PAGE_BYTES) - start;
    if (w->copies > 0 && (uintptr_t)to - run < (size_t)size_classes[size_class].run_slabs << SLAB_SHIFT) {
        w->copies--;
        if (os_populate((void *)start, length)) {
            count(&heap->counters.faults_avoided, length / OS_PAGE_BYTES - 1);
        }
    }
}

COLD void ahead_of_copy(const void *to, size_t bytes) {
    struct heap *heap = thread_heap_now();
    if (heap != &heap_of_no_thread && arena_is_large()) {
        heap_enter(heap);
        populate_for_copy(heap, to, bytes);
        heap_leave(heap);
    }
}
