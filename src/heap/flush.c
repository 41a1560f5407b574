#include "arena/arena.h"
#include "base/text.h"
#include "heap/heap.h"
#include "os/report.h"

#include <string.h>

/* Where a block lies. */
struct spot {
    struct slab *slab;
    unsigned word;
    uint64_t mask;
};

static COLD _Noreturn void report_block(const char *action, const char *detail, const void *block,
                                        const struct slab *slab) {
    char buffer[96];
    struct text kind = TEXT_ON(buffer);
    text_string(&kind, action);
    text_string(&kind, detail);
    size_t bytes = slab == NULL ? 0 : size_classes[slab->size_class].bytes;
    report_misuse(buffer, block, "unknown", bytes, slab == NULL ? 0 : arena_address(slab));
}

#define DOUBLE_FREE "double free"
#define INVALID_FREE "invalid free"

/* The run that the last block looked at lies in; blocks of one batch often are neighbours. */
struct view {
    uintptr_t start;
    size_t bytes;
    struct slab *slab;
};

static NOINLINE void look_up(const char *action, const void *block, struct view *view) {
    struct region *region = region_of((uintptr_t)block);
    if (UNLIKELY(region == NULL)) {
        report_block(action, " (not a block of this heap)", block, NULL);
    }
    size_t index = region_slab_index(region, (uintptr_t)block);
    index -= region->head_back[index];
    view->slab = region_slab(region, index);
    view->start = region->base + (index << SLAB_SHIFT);
    view->bytes = size_classes[view->slab->size_class].run_slabs * SLAB_BYTES;
}

/* Aborts if `block` is not the start of a block of a slab in use; `action` says what was to be done. */
static inline struct spot locate(const char *action, const void *block, struct view *view) {
    if (view->slab == NULL || (uintptr_t)block - view->start >= view->bytes) {
        look_up(action, block, view);
    }
    struct slab *slab = view->slab;
    /* relaxed: the thread holds a block of the slab, which keeps it in use; where it does not, that is
     * the misuse looked for */
    uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
    if (UNLIKELY(state == SLAB_FREE || state == SLAB_INTERNAL || state == SLAB_LARGE)) {
        report_block(strcmp(action, INVALID_FREE) == 0 ? DOUBLE_FREE : action,
                     " (its slab is no longer in use)", block, slab);
    }
    const struct size_class *c = &size_classes[slab->size_class];
    size_t offset = (uintptr_t)block - view->start;
    size_t number = (size_t)(offset * c->reciprocal >> RECIPROCAL_SHIFT);
    if (UNLIKELY(number * c->bytes != offset)) {
        report_block(action, " (not the start of a block)", block, slab);
    }
    /* relaxed: written before the block was handed out */
    if (UNLIKELY(number >= atomic_load_explicit(&slab->bump, memory_order_relaxed))) {
        report_block(action, " (a block that was never allocated)", block, slab);
    }
    return (struct spot){slab, (unsigned)(number / 64), (uint64_t)1 << (number % 64)};
}

void heap_check_block(const char *action, const void *block) {
    struct view view = {0};
    (void)locate(action, block, &view);
}

static void put(struct heap *heap, const struct spot *spot) {
    uint64_t twice;
    unsigned events = slab_put(spot->slab, spot->word, spot->mask, &twice);
    if (UNLIKELY(twice != 0)) {
        size_t number = spot->word * 64 + bit_lowest(twice);
        uintptr_t block = arena_address(spot->slab) + number * size_classes[spot->slab->size_class].bytes;
        report_block(DOUBLE_FREE, "", (void *)block, spot->slab);
    }
    if (events & SLAB_HAS_FREE) {
        bin_queue(heap, spot->slab);
    }
    if (events & SLAB_ALL_FREE) {
        bin_release_if_free(heap, spot->slab);
    }
}

/* Blocks of one word often lie apart in a batch, between those of other classes: words stay open until
 * another one needs the place, so that most get their blocks by one atomic operation. */
#define OPEN_WORDS 32

static size_t place_of(const struct spot *spot) {
    uintptr_t slab = (uintptr_t)spot->slab / sizeof(struct slab);
    return (slab * 5 + spot->word) % OPEN_WORDS;
}

void heap_return_blocks(struct heap *heap, void *const *blocks, size_t n) {
    heap_enter(heap);
    struct spot open[OPEN_WORDS];
    uint32_t used = 0;
    struct view view = {0};
    for (size_t i = 0; i < n; i++) {
        struct spot next = locate(INVALID_FREE, blocks[i], &view);
        size_t place = place_of(&next);
        struct spot *spot = &open[place];
        if ((used >> place & 1) != 0) {
            if (spot->slab == next.slab && spot->word == next.word) {
                if (UNLIKELY((spot->mask & next.mask) != 0)) {
                    report_block(DOUBLE_FREE, "", blocks[i], next.slab);
                }
                spot->mask |= next.mask;
                continue;
            }
            put(heap, spot);
        }
        *spot = next;
        used |= 1u << place;
    }
    for (; used != 0; used &= used - 1) {
        put(heap, &open[bit_lowest(used)]);
    }
    heap_leave(heap);
}

static uint32_t remote_count(const struct heap *heap) {
    return atomic_load_explicit(&heap->remote_count, memory_order_relaxed); /* the owner's own */
}

static void remote_set(struct heap *heap, uint32_t n, size_t bytes) {
    atomic_store_explicit(&heap->remote_count, n, memory_order_relaxed); /* the owner's own */
    atomic_store_explicit(&heap->remote_bytes, bytes, memory_order_relaxed);
}

void heap_flush_remote(struct heap *heap) {
    size_t n = remote_count(heap);
    if (n == 0) {
        return;
    }
    remote_set(heap, 0, 0);
    count(&heap->counters.remote_flushes, 1);
    heap_return_blocks(heap, heap->remote, n);
}

void heap_free_remote(struct heap *heap, void *block, unsigned size_class) {
    uint32_t n = remote_count(heap);
    size_t bytes =
        atomic_load_explicit(&heap->remote_bytes, memory_order_relaxed) + size_classes[size_class].bytes;
    heap->remote[n] = block;
    remote_set(heap, n + 1, bytes);
    count(&heap->counters.remote_frees, 1);
    if (n + 1 == REMOTE_BLOCKS || bytes > REMOTE_BYTES_MAX) {
        heap_flush_remote(heap);
    }
}

size_t heap_flush_all(struct heap *heap) {
    size_t n = remote_count(heap);
    heap_flush_remote(heap);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        n += heap_flush_magazine(heap, c);
    }
    return n;
}
