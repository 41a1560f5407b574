#include "heap/ahead.h"

#include "arena/arena.h"
#include "heap/thread.h"
#include "os/os.h"

/* Most runs that a testimony serves for. */
#define CREDIT_MOST 16
/* This part of a run's pages may be missing where it counts as filled. */
#define MISSING_PART 32
/* The tail of a run may be this part of it where it is to lie on a huge page, all of which is resident. */
#define TAIL_PART 64
#define RUN_MOST_PAGES (SUPERSLAB_BYTES / OS_PAGE_BYTES)

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

static RARE bool is_filled(uintptr_t run, size_t pages) {
    unsigned char resident[RUN_MOST_PAGES];
    if (!os_which_resident((void *)run, pages, resident)) {
        return false;
    }
    size_t found = 0;
    for (size_t i = 0; i < pages; i++) {
        found += resident[i];
    }
    return found >= pages - pages / MISSING_PART;
}

RARE enum arena_use ahead_use_of_larger(struct heap *heap, unsigned size_class) {
    const struct size_class *c = &size_classes[size_class];
    struct witness *w = witness_of(heap, size_class);
    if (w->credit == 0 && w->run != 0) {
        bool filled = !arena_is_scarce() && is_filled((uintptr_t)w->run << SLAB_SHIFT, pages_of_blocks(c));
        w->run = 0;
        w->trust = filled ? (uint8_t)min_size(2 * (size_t)w->trust + (w->trust == 0), CREDIT_MOST) : 0;
        w->credit = w->trust;
    }
    if (w->credit == 0) {
        return ARENA_USE_UNKNOWN;
    }
    w->credit--;
    return fills_superslabs(c) ? ARENA_FILLS_SLABS : ARENA_FILLS_PART;
}

COLD bool ahead_of_run(struct heap *heap, const struct slab *slab, enum arena_use use) {
    const struct size_class *c = &size_classes[slab->size_class];
    uintptr_t start = arena_address(slab);
    size_t pages = pages_of_blocks(c);
    if (use != ARENA_USE_UNKNOWN && os_populate((void *)start, pages * OS_PAGE_BYTES)) {
        count(&heap->counters.populated_slabs, c->run_slabs);
        count(&heap->counters.faults_avoided, pages - 1);
        return true;
    }
    if (c->bytes > OS_PAGE_BYTES) {
        witness_of(heap, slab->size_class)->run = (uint32_t)(start >> SLAB_SHIFT);
    }
    return false;
}

static RARE void populate_for_copy(const void *to, size_t bytes) {
    struct heap *heap = thread_heap_now();
    uint32_t word = page_map_get(to);
    if (heap == NULL || !page_word_is_class(word) ||
        size_classes[page_word_class(word)].bytes <= OS_PAGE_BYTES) {
        return;
    }
    /* Of the last run that was clean, most blocks have not been handed out before. */
    unsigned size_class = page_word_class(word);
    uintptr_t run = (uintptr_t)witness_of(heap, size_class)->run << SLAB_SHIFT;
    uintptr_t start = round_down((uintptr_t)to, OS_PAGE_BYTES);
    if ((uintptr_t)to - run < (size_t)size_classes[size_class].run_slabs << SLAB_SHIFT) {
        size_t length = round_up((uintptr_t)to + bytes, OS_PAGE_BYTES) - start;
        if (os_populate((void *)start, length)) {
            count(&heap->counters.faults_avoided, length / OS_PAGE_BYTES - 1);
        }
    }
}

COLD void ahead_of_copy(const void *to, size_t bytes) {
    if (arena_is_large()) {
        populate_for_copy(to, bytes);
    }
}
