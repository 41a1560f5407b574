#include "arena/arena.h"
#include "arena/decay.h"
#include "base/text.h"
#include "heap/heap.h"
#include "heap/slack.h"
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

/* The run that a block lies in. */
struct view {
    uintptr_t start;
    const struct size_class *class;
    uint32_t used; /* blocks that were handed out when it was looked up: the least there are now */
};

#define ANY_CLASS SIZE_CLASSES

/* Where a block lies, found without a branch that depends on the order of blocks; false if there is anything
 * odd about it. The class is the view's, whose number is `wanted`, or becomes that if any will do. */
static inline bool find(const void *block, unsigned wanted, struct view *view, struct spot *spot) {
    struct region *region = region_of((uintptr_t)block);
    if (UNLIKELY(region == NULL)) {
        return false;
    }
    size_t index = wanted == ANY_CLASS || view->class->run_slabs > 1
                       ? region_run_index(region, (uintptr_t)block)
                       : region_slab_index(region, (uintptr_t)block);
    struct slab *slab = region_slab(region, index);
    if (wanted == ANY_CLASS) {
        wanted = slab->size_class;
        view->class = &size_classes[wanted];
    }
    view->start = region->base + (index << SLAB_SHIFT);
    size_t offset = (uintptr_t)block - view->start;
    size_t number = (size_t)(offset * view->class->reciprocal >> RECIPROCAL_SHIFT);
    /* relaxed: the thread holds a block of the slab, which keeps it in use; where it does not, that is
     * the misuse looked for */
    uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
    /* relaxed: written before the block was handed out */
    view->used = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    *spot = (struct spot){slab, (unsigned)(number / 64), (uint64_t)1 << (number % 64)};
    return LIKELY(slab_state_has_blocks(state)) && LIKELY(slab->size_class == wanted) &&
           LIKELY(number * view->class->bytes == offset) && LIKELY(number < view->used);
}

/* Says what is wrong with a block that was not found. */
static COLD _Noreturn void report_odd(const char *action, const void *block) {
    struct region *region = region_of((uintptr_t)block);
    if (region == NULL) {
        report_block(action, " (not a block of this heap)", block, NULL);
    }
    struct slab *slab = region_slab(region, region_run_index(region, (uintptr_t)block));
    /* relaxed, both: as in find */
    if (!slab_state_has_blocks(atomic_load_explicit(&slab->state, memory_order_relaxed))) {
        report_block(strcmp(action, INVALID_FREE) == 0 ? DOUBLE_FREE : action,
                     " (its slab is no longer in use)", block, slab);
    }
    const struct size_class *c = &size_classes[slab->size_class];
    size_t offset = (uintptr_t)block - arena_address(slab);
    if (offset % c->bytes != 0) {
        report_block(action, " (not the start of a block)", block, slab);
    }
    if (offset / c->bytes >= atomic_load_explicit(&slab->bump, memory_order_relaxed)) {
        report_block(action, " (a block that was never allocated)", block, slab);
    }
    report_block(action, "", block, slab); /* what was wrong is so no more: two threads' doing */
}

void heap_check_block(const char *action, const void *block) {
    struct view view;
    struct spot spot;
    if (UNLIKELY(!find(block, ANY_CLASS, &view, &spot))) {
        report_odd(action, block);
    }
}

static COLD _Noreturn void report_twice(const struct slab *slab, unsigned word, uint64_t twice) {
    size_t number = word * 64 + bit_lowest(twice);
    uintptr_t block = arena_address(slab) + number * size_classes[slab->size_class].bytes;
    report_block(DOUBLE_FREE, "", (void *)block, slab);
}

static NOINLINE void follow(struct heap *heap, struct slab *slab, unsigned events) {
    if (events & SLAB_HAS_FREE) {
        bin_queue(heap, slab);
    }
    if (events & SLAB_ALL_FREE) {
        bin_release_if_free(heap, slab);
    }
}

static inline void put(struct heap *heap, const struct size_class *c, const struct spot *spot) {
    uint64_t twice;
    unsigned events = slab_put(spot->slab, c, spot->word, spot->mask, &twice);
    if (UNLIKELY(twice != 0)) {
        report_twice(spot->slab, spot->word, twice);
    }
    if (UNLIKELY(events != SLAB_NOTHING)) {
        follow(heap, spot->slab, events);
    }
}

/* Adds the next blocks, as long as they are of the same word; gives how many. What is odd is left to the
 * caller, but for a block that is there twice. */
static inline size_t gather(const struct view *view, struct spot *spot, void *const *blocks, size_t n) {
    size_t bytes = view->class->bytes;
    size_t first = (size_t)spot->word * 64;
    uintptr_t start = view->start + first * bytes;
    size_t limit = 64 * bytes;
    size_t i = 0;
    if (n == 0 || (uintptr_t)blocks[0] - start >= limit) {
        return 0;
    }
    uint64_t reciprocal = view->class->reciprocal;
    uint64_t mask = spot->mask;
    for (; i < n; i++) {
        size_t offset = (uintptr_t)blocks[i] - start;
        size_t number = (size_t)(offset * reciprocal >> RECIPROCAL_SHIFT);
        uint64_t bit = (uint64_t)1 << (number % 64);
        if (offset >= limit || number * bytes != offset || first + number >= view->used) {
            break;
        }
        if (UNLIKELY((mask & bit) != 0)) {
            report_block(DOUBLE_FREE, "", blocks[i], spot->slab); /* before another thread gets the first */
        }
        mask |= bit;
    }
    spot->mask = mask;
    return i;
}

void heap_return_blocks(struct heap *heap, void *const *blocks, size_t n) {
    struct view view;
    struct spot spot;
    size_t bytes = 0;
    if (n == 0) {
        return;
    }
    heap_enter(heap);
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        if (UNLIKELY(!find(blocks[i], ANY_CLASS, &view, &spot))) {
            report_odd(INVALID_FREE, blocks[i]);
        }
        i++;
        i += gather(&view, &spot, blocks + i, n - i);
        put(heap, view.class, &spot);
        bytes += (i - begin) * view.class->bytes;
    }
    slack_note_returned(heap, bytes);
    heap_leave(heap);
}

void heap_return_class(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    const struct size_class c = size_classes[size_class]; /* which no atomic operation makes be read anew */
    struct view view = {.class = &c};
    struct spot spot;
    size_t i = 0;
    heap_enter(heap);
    while (i < n && LIKELY(find(blocks[i], size_class, &view, &spot))) {
        i++;
        i += gather(&view, &spot, blocks + i, n - i);
        put(heap, &c, &spot);
    }
    slack_note_returned(heap, i * c.bytes);
    heap_leave(heap);
    heap_return_blocks(heap, blocks + i, n - i); /* what is odd: it says how */
}

static uint32_t remote_count(const struct heap *heap) {
    return atomic_load_explicit(&heap->remote_count, memory_order_relaxed); /* the owner's own */
}

static void remote_set(struct heap *heap, uint32_t n, size_t bytes) {
    atomic_store_explicit(&heap->remote_count, n, memory_order_relaxed); /* the owner's own */
    atomic_store_explicit(&heap->remote_bytes, bytes, memory_order_relaxed);
}

/* The buffer counts as empty from now on; gives the blocks that are still in its array. */
static size_t empty_remote(struct heap *heap) {
    size_t n = remote_count(heap);
    if (n > 0) {
        remote_set(heap, 0, 0);
        count(&heap->counters.remote_flushes, 1);
    }
    return n;
}

void heap_flush_remote(struct heap *heap) {
    heap_return_blocks(heap, heap->remote, empty_remote(heap));
}

/* Fewer blocks of one owner are not worth a parcel; and of so many owners at once none gets one. */
#define PARCEL_BLOCKS_LEAST 32
#define PARCEL_OWNERS_MOST 4
/* The background thread, which parcels need, is asked for so often. */
#define FLUSHES_FOR_A_REQUEST 16

/* Moves the blocks of the owner from `blocks` to `same`; gives how many. */
static size_t pick_out(uint32_t owner, void **blocks, size_t n, void **same, size_t *bytes) {
    size_t picked = 0;
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        void *block = blocks[i];
        uint32_t word = page_map_get(block);
        if (page_word_owner(word) == owner) {
            same[picked++] = block;
            *bytes += size_classes[page_word_class(word)].bytes;
        } else {
            blocks[i - picked] = block;
        }
    }
    return picked;
}

/* The buffer is full: as much as possible goes to its owners in parcels. */
static void send_remote(struct heap *heap) {
    heap_enter(heap);
    size_t n = empty_remote(heap);
    for (unsigned owners = 0; n >= PARCEL_BLOCKS_LEAST && owners < PARCEL_OWNERS_MOST; owners++) {
        void *same[REMOTE_BLOCKS];
        size_t bytes;
        uint32_t id = page_word_owner(page_map_get(heap->remote[0]));
        struct heap *owner = heap_by_id(id);
        if (owner == NULL) {
            break; /* misuse, which heap_return_blocks reports */
        }
        size_t picked = pick_out(id, heap->remote, n, same, &bytes);
        n -= picked;
        if (picked >= PARCEL_BLOCKS_LEAST && owner != heap && parcel_send(owner, same, picked, bytes)) {
            count(&heap->counters.remote_parcels, 1);
        } else {
            heap_return_blocks(heap, same, picked);
        }
    }
    heap_return_blocks(heap, heap->remote, n);
    uint64_t flushes =
        atomic_load_explicit(&heap->counters.remote_flushes, memory_order_relaxed); /* its own */
    if (UNLIKELY(flushes % FLUSHES_FOR_A_REQUEST == 1)) {
        decay_request();
    }
    heap_leave(heap);
}

void heap_free_remote(struct heap *heap, void *block, unsigned size_class) {
    if (!heap_hold_remote(heap, block, size_class)) {
        send_remote(heap);
        (void)heap_hold_remote(heap, block, size_class);
    }
}

size_t heap_flush_all(struct heap *heap, enum flush_cause cause) {
    size_t n = remote_count(heap) + parcels_return(heap, heap);
    heap_flush_remote(heap);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        n += heap_flush_magazine(heap, c, cause);
    }
    return n;
}
