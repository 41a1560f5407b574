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

/* The run that the last block looked at lies in; blocks of one batch often are neighbours. */
struct view {
    uintptr_t start;
    size_t bytes; /* 0: none */
    struct slab *slab;
    const struct size_class *class;
    uint32_t used; /* blocks that were handed out when it was looked up: the least there are now */
};

/* Aborts if `block` is not in a slab in use; `action` says what was to be done. */
static NOINLINE void look_up(const char *action, const void *block, struct view *view) {
    struct region *region = region_of((uintptr_t)block);
    if (UNLIKELY(region == NULL)) {
        report_block(action, " (not a block of this heap)", block, NULL);
    }
    size_t index = region_slab_index(region, (uintptr_t)block);
    index -= region->head_back[index];
    struct slab *slab = region_slab(region, index);
    /* relaxed: the thread holds a block of the slab, which keeps it in use; where it does not, that is
     * the misuse looked for */
    uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
    if (UNLIKELY(state == SLAB_FREE || state == SLAB_INTERNAL || state == SLAB_LARGE)) {
        report_block(strcmp(action, INVALID_FREE) == 0 ? DOUBLE_FREE : action,
                     " (its slab is no longer in use)", block, slab);
    }
    view->slab = slab;
    view->start = region->base + (index << SLAB_SHIFT);
    view->class = &size_classes[slab->size_class];
    view->bytes = view->class->run_slabs * SLAB_BYTES;
    /* relaxed: written before the block was handed out */
    view->used = atomic_load_explicit(&slab->bump, memory_order_relaxed);
}

/* The number of the block in its run; aborts if it is not the start of a block that was handed out. */
static inline size_t locate(const char *action, const void *block, struct view *view) {
    if (UNLIKELY((uintptr_t)block - view->start >= view->bytes)) {
        look_up(action, block, view);
    }
    size_t offset = (uintptr_t)block - view->start;
    size_t number = (size_t)(offset * view->class->reciprocal >> RECIPROCAL_SHIFT);
    if (UNLIKELY(number * view->class->bytes != offset)) {
        report_block(action, " (not the start of a block)", block, view->slab);
    }
    if (UNLIKELY(number >= view->used)) {
        view->used = atomic_load_explicit(&view->slab->bump, memory_order_relaxed); /* as above */
        if (number >= view->used) {
            report_block(action, " (a block that was never allocated)", block, view->slab);
        }
    }
    return number;
}

void heap_check_block(const char *action, const void *block) {
    struct view view = {.class = size_classes};
    (void)locate(action, block, &view);
}

/* Blocks of one word often lie apart in a batch, between those of other classes: words stay open until
 * another one needs the place, so that most get their blocks by one atomic operation. */
#define OPEN_WORDS 32

/* Runs that are remembered: blocks of several classes alternate, when another thread frees them. */
#define VIEWS 32

struct batch {
    struct spot open[OPEN_WORDS];
    uint32_t used;
    struct view views[VIEWS];
};

static inline struct view *view_of(struct batch *batch, const void *block) {
    return &batch->views[((uintptr_t)block >> SLAB_SHIFT) % VIEWS];
}

static void forget_views(struct batch *batch) {
    for (size_t i = 0; i < VIEWS; i++) {
        batch->views[i].bytes = 0;
    }
}

/* Whether the slab may be gone: a block of it that is still to come is misuse. */
static NOINLINE bool put(struct heap *heap, const struct spot *spot) {
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
    return (events & SLAB_ALL_FREE) != 0;
}

static void put_open(struct heap *heap, struct batch *batch, const struct spot *spot) {
    if (put(heap, spot)) {
        forget_views(batch); /* look_up finds out */
    }
}

static size_t place_of(const struct slab *slab, unsigned word) {
    return ((uintptr_t)slab / sizeof(struct slab) * 5 + word) % OPEN_WORDS;
}

/* The open word of the slab, which may be new. */
static inline struct spot *open_word(struct heap *heap, struct batch *batch, struct slab *slab,
                                     unsigned word) {
    size_t place = place_of(slab, word);
    struct spot *spot = &batch->open[place];
    if ((batch->used >> place & 1) != 0) {
        if (spot->slab == slab && spot->word == word) {
            return spot;
        }
        put_open(heap, batch, spot);
    }
    batch->used |= 1u << place;
    *spot = (struct spot){slab, word, 0};
    return spot;
}

/* Adds blocks to an open word, as long as they are of it and in order; gives how many. What is odd in any way
 * is left to the caller. */
static inline size_t gather(const struct view *view, struct spot *spot, void *const *blocks, size_t n) {
    size_t bytes = view->class->bytes;
    size_t first = (size_t)spot->word * 64;
    uintptr_t start = view->start + first * bytes;
    size_t limit = min_size(view->used - first, 64) * bytes;
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
        if (offset >= limit || number * bytes != offset || (mask & bit) != 0) {
            break;
        }
        mask |= bit;
    }
    spot->mask = mask;
    return i;
}

void heap_return_blocks(struct heap *heap, void *const *blocks, size_t n) {
    if (n == 0) {
        return;
    }
    heap_enter(heap);
    struct batch batch;
    batch.used = 0;
    forget_views(&batch);
    size_t bytes = 0;
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        struct view *view = view_of(&batch, blocks[i]);
        size_t number = locate(INVALID_FREE, blocks[i], view);
        struct spot *spot = open_word(heap, &batch, view->slab, (unsigned)(number / 64));
        if (UNLIKELY(view->bytes == 0)) {
            (void)locate(INVALID_FREE, blocks[i], view);
        }
        uint64_t mask = (uint64_t)1 << (number % 64);
        if (UNLIKELY((spot->mask & mask) != 0)) {
            report_block(DOUBLE_FREE, "", blocks[i], spot->slab);
        }
        spot->mask |= mask;
        i++;
        i += gather(view, spot, blocks + i, n - i);
        bytes += (i - begin) * view->class->bytes;
    }
    for (; batch.used != 0; batch.used &= batch.used - 1) {
        put_open(heap, &batch, &batch.open[bit_lowest(batch.used)]);
    }
    slack_note_returned(heap, bytes);
    heap_leave(heap);
}

/* Where a block of the class lies, found without a branch that depends on the order of blocks; false if there
 * is anything odd about it. */
static inline bool find(const void *block, unsigned size_class, struct spot *spot) {
    struct region *region = region_of((uintptr_t)block);
    if (UNLIKELY(region == NULL)) {
        return false;
    }
    const struct size_class *c = &size_classes[size_class];
    size_t index = region_slab_index(region, (uintptr_t)block);
    index -= region->head_back[index];
    struct slab *slab = region_slab(region, index);
    size_t offset = (uintptr_t)block - (region->base + (index << SLAB_SHIFT));
    size_t number = (size_t)(offset * c->reciprocal >> RECIPROCAL_SHIFT);
    /* relaxed, both: as in look_up */
    uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
    uint32_t used = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    *spot = (struct spot){slab, (unsigned)(number / 64), (uint64_t)1 << (number % 64)};
    return LIKELY(slab_state_has_blocks(state)) && LIKELY(slab->size_class == size_class) &&
           LIKELY(number * c->bytes == offset) && LIKELY(number < used);
}

void heap_return_class(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    const struct size_class *c = &size_classes[size_class];
    struct spot open = {0};
    uintptr_t start = 0; /* of the open word's blocks */
    size_t bytes = 0;
    size_t i = 0;
    heap_enter(heap);
    for (; i < n; i++) {
        size_t offset = (uintptr_t)blocks[i] - start;
        if (offset < bytes) { /* a neighbour */
            size_t number = (size_t)(offset * c->reciprocal >> RECIPROCAL_SHIFT);
            uint64_t mask = (uint64_t)1 << number;
            if (LIKELY(number * c->bytes == offset) && LIKELY((open.mask & mask) == 0)) {
                open.mask |= mask;
                continue;
            }
        }
        struct spot spot;
        if (UNLIKELY(!find(blocks[i], size_class, &spot))) {
            break;
        }
        if (spot.slab != open.slab || spot.word != open.word) {
            if (LIKELY(open.slab != NULL)) {
                (void)put(heap, &open);
            }
            open = spot;
            /* relaxed: as in find; at least the blocks that it has seen */
            size_t used = atomic_load_explicit(&spot.slab->bump, memory_order_relaxed);
            start = (uintptr_t)blocks[i] - (size_t)bit_lowest(spot.mask) * c->bytes;
            bytes = min_size(used - (size_t)spot.word * 64, 64) * c->bytes;
        } else if (UNLIKELY((open.mask & spot.mask) != 0)) {
            report_block(DOUBLE_FREE, "", blocks[i], open.slab);
        } else {
            open.mask |= spot.mask;
        }
    }
    if (open.slab != NULL) {
        (void)put(heap, &open);
    }
    slack_note_returned(heap, i * c->bytes);
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
