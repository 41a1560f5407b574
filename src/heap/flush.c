#include "arena/arena.h"
#include "arena/decay.h"
#include "base/quotient.h"
#include "base/text.h"
#include "heap/alone.h"
#include "heap/heap.h"
#include "heap/slack.h"
#include "os/report.h"

#include <string.h>

/* Where a block lies. */
struct spot {
    struct slab *slab;
    size_t number; /* of the block in its run */
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

/* Whether the place `offset` of a run of blocks of `bytes` is that of block `number`, and this was handed
 * out. relaxed: the thread holds a block of the slab, which keeps it in use, and what is read was written
 * before the block was handed out; where it does not, that is the misuse looked for. */
static inline bool is_block(const struct slab *slab, size_t number, size_t offset, size_t bytes) {
    return LIKELY(slab_state_has_blocks(atomic_load_explicit(&slab->state, memory_order_relaxed))) &&
           LIKELY(number * bytes == offset) &&
           LIKELY(number < atomic_load_explicit(&slab->bump, memory_order_relaxed));
}

/* Where a block lies, and of which class it is; false if there is anything odd about it. */
static inline bool find(const void *block, struct spot *spot, const struct size_class **class) {
    struct region *region = region_of((uintptr_t)block);
    if (UNLIKELY(region == NULL)) {
        return false;
    }
    size_t index = region_run_index(region, (uintptr_t)block);
    struct slab *slab = region_slab(region, index);
    const struct size_class *c = &size_classes[slab->size_class];
    size_t offset = (uintptr_t)block - region->base - (index << SLAB_SHIFT);
    *spot = (struct spot){slab, (size_t)(offset * c->reciprocal >> RECIPROCAL_SHIFT)};
    *class = c;
    return LIKELY(is_block(slab, spot->number, offset, c->bytes));
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
    struct spot spot;
    const struct size_class *class;
    if (UNLIKELY(!find(block, &spot, &class))) {
        report_odd(action, block);
    }
}

static COLD _Noreturn void report_twice(const struct slab *slab, unsigned word, uint64_t twice) {
    size_t number = word * 64 + bit_lowest(twice);
    uintptr_t block = arena_address(slab) + number * size_classes[slab->size_class].bytes;
    report_block(DOUBLE_FREE, "", (void *)block, slab);
}

static NOINLINE void follow(struct heap *heap, struct slab *slab, size_t bytes, unsigned events) {
    if (events & SLAB_PAGE_FREE) {
        slack_note_page(heap, bytes);
    }
    if (events & SLAB_HAS_FREE) {
        bin_queue(heap, slab);
    }
    if (events & SLAB_ALL_FREE) {
        bin_release_if_free(heap, slab);
    }
}

/* Blocks `mask` of one word go back. `*alone` is heap_is_alone, and kept so. */
static ALWAYS_INLINE void put(struct heap *heap, struct slab *slab, size_t bytes, unsigned word,
                              uint64_t mask, bool *alone) {
    uint64_t twice;
    unsigned events = slab_put(slab, word, mask, *alone, &twice);
    if (UNLIKELY(twice != 0)) {
        report_twice(slab, word, twice);
    }
    if (UNLIKELY(events != SLAB_NOTHING)) {
        follow(heap, slab, bytes, events);
        *alone = heap_is_alone(); /* the library's thread may have been started */
    }
}

/* Adds a block of the word to those that are to go back. */
static ALWAYS_INLINE uint64_t add(uint64_t mask, size_t number, const void *block, const struct slab *slab) {
    uint64_t bit = (uint64_t)1 << number % 64;
    if (UNLIKELY((mask & bit) != 0)) {
        report_block(DOUBLE_FREE, "", block, slab); /* before another thread gets the first */
    }
    return mask | bit;
}

/* Adds the next blocks to the one that `mask` stands for, as long as they are of the same word. What is odd
 * is left to the caller, but for a block that is there twice. Gives where it stopped. */
static NOINLINE void *const *gather(const struct size_class *c, const struct slab *slab, uintptr_t word_start,
                                    uint64_t *mask, void *const *next, void *const *end) {
    const uint64_t reciprocal = c->reciprocal;
    const size_t bytes = c->bytes;
    /* Of the word's blocks. relaxed: as in find */
    size_t used = atomic_load_explicit(&slab->bump, memory_order_relaxed) -
                  (size_t)((word_start - arena_address(slab)) * reciprocal >> RECIPROCAL_SHIFT);
    used = min_size(used, 64);
    for (; next < end; next++) {
        size_t offset = (uintptr_t)*next - word_start;
        size_t number = (size_t)(offset * reciprocal >> RECIPROCAL_SHIFT);
        if (offset >= 64 * bytes || number * bytes != offset || number >= used) {
            break;
        }
        *mask = add(*mask, number, *next, slab);
    }
    return next;
}

void heap_return_blocks(struct heap *heap, void *const *blocks, size_t n) {
    void *const *const end = blocks + n;
    size_t bytes = 0;
    if (n == 0) {
        return;
    }
    heap_enter(heap);
    bool alone = heap_is_alone();
    for (void *const *next = blocks; next < end;) {
        struct spot spot;
        const struct size_class *c;
        void *const *const first = next++;
        if (UNLIKELY(!find(*first, &spot, &c))) {
            report_odd(INVALID_FREE, *first);
        }
        uint64_t mask = (uint64_t)1 << spot.number % 64;
        uintptr_t word_start = (uintptr_t)*first - spot.number % 64 * c->bytes;
        if (next < end && (uintptr_t)*next - word_start < (size_t)64 * c->bytes) {
            next = gather(c, spot.slab, word_start, &mask, next, end);
        }
        put(heap, spot.slab, c->bytes, (unsigned)(spot.number / 64), mask, &alone);
        bytes += (size_t)(next - first) * c->bytes;
    }
    slack_note_returned(heap, bytes);
    heap_leave(heap);
}

/* The loop of programs that drop what they built, for classes whose runs are one slab: of what is the same
 * for all blocks, nothing is read anew behind the atomic operations. Gives where there is something odd, or
 * the end. */
static ALWAYS_INLINE void *const *return_small(struct heap *heap, unsigned size_class, void *const *next,
                                               void *const *end) {
    const struct size_class *c = &size_classes[size_class];
    const uint64_t reciprocal = quotient_reciprocal(c->bytes);
    const size_t bytes = c->bytes;
    const size_t reach = min_size(64 * bytes, SLAB_BYTES); /* of a word's blocks */
    uintptr_t base = 0; /* of the region of the block before, and its length */
    size_t extent = 0;
    bool alone = heap_is_alone();
    while (next < end) {
        uintptr_t at = (uintptr_t)*next;
        if (UNLIKELY(at - base >= extent)) {
            const struct region *region = region_of(at);
            if (region == NULL) {
                break;
            }
            base = region->base;
            extent = region->bytes;
        }
        struct slab *slab = region_slab_at(base, (at - base) >> SLAB_SHIFT);
        size_t number = quotient_if_whole(reciprocal, at % SLAB_BYTES);
        /* relaxed, both: as in is_block */
        size_t used = atomic_load_explicit(&slab->bump, memory_order_relaxed);
        if (UNLIKELY(slab->size_class != size_class) ||
            UNLIKELY(!slab_state_has_blocks(atomic_load_explicit(&slab->state, memory_order_relaxed))) ||
            UNLIKELY(number >= used)) {
            break;
        }
        uint64_t mask = (uint64_t)1 << number % 64;
        next++;
        if (next < end && (uintptr_t)*next - at + reach < 2 * reach) { /* perhaps of the same word */
            uintptr_t word_start = at - number % 64 * bytes;
            used = min_size(used - number / 64 * 64, 64);
            for (; next < end && (uintptr_t)*next - word_start < reach; next++) {
                size_t other = quotient_if_whole(reciprocal, (uintptr_t)*next - word_start);
                if (other >= used) {
                    break;
                }
                mask = add(mask, other, *next, slab);
            }
        }
        put(heap, slab, bytes, (unsigned)(number / 64), mask, &alone);
    }
    return next;
}

void heap_return_class(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    const struct size_class *c = &size_classes[size_class];
    void *const *left = blocks;
    if (LIKELY(c->run_slabs == 1)) {
        heap_enter(heap);
        left = return_small(heap, size_class, blocks, blocks + n);
        slack_note_returned(heap, (size_t)(left - blocks) * c->bytes);
        heap_leave(heap);
    }
    heap_return_blocks(heap, left, (size_t)(blocks + n - left)); /* what is odd: it says how */
}

static uint32_t remote_count(const struct heap *heap) {
    return atomic_load_explicit(&heap->remote_count, memory_order_relaxed); /* the owner's own */
}

/* The buffer counts as empty from now on; gives the blocks that are still in its arrays. */
static size_t empty_remote(struct heap *heap) {
    size_t n = remote_count(heap);
    if (n > 0) {
        count(&heap->counters.remote_frees, n);
        count(&heap->counters.remote_flushes, 1);
        atomic_store_explicit(&heap->remote_count, 0, memory_order_relaxed); /* the owner's own */
    }
    return n;
}

void heap_flush_remote(struct heap *heap) {
    heap_return_blocks(heap, heap->remote.blocks, empty_remote(heap));
}

/* Fewer blocks of one owner are not worth a parcel; and of so many owners at once none gets one. */
#define PARCEL_BLOCKS_LEAST 32
#define PARCEL_OWNERS_MOST 4
/* The background thread, which parcels need, is asked for so often. */
#define FLUSHES_FOR_A_REQUEST 16

/* Moves the blocks of the owner from `blocks` to `same`; gives how many. */
static size_t pick_out(uint32_t owner, struct classed_blocks *blocks, size_t n, struct classed_blocks *same) {
    size_t picked = 0;
    for (size_t i = 0; i < n; i++) {
        void *block = blocks->blocks[i];
        bool is_owners = page_word_owner(page_map_get(block)) == owner;
        struct classed_blocks *to = is_owners ? same : blocks;
        size_t at = is_owners ? picked : i - picked;
        to->blocks[at] = block;
        to->classes[at] = blocks->classes[i];
        picked += is_owners;
    }
    return picked;
}

static bool send_to(uint32_t owner, struct heap *heap, const struct classed_blocks *blocks, size_t n) {
    struct heap *to = heap_by_id(owner);
    bool sent = n >= PARCEL_BLOCKS_LEAST && to != heap && to != NULL && parcel_send(to, blocks, n);
    if (sent) {
        count(&heap->counters.remote_parcels, 1);
    }
    return sent;
}

/* As much as possible of a buffer of several owners goes to them; gives how many blocks are left in it. */
static NOINLINE size_t send_mixed(struct heap *heap, size_t n) {
    for (unsigned owners = 0; n >= PARCEL_BLOCKS_LEAST && owners < PARCEL_OWNERS_MOST; owners++) {
        struct classed_blocks same;
        uint32_t owner = page_word_owner(page_map_get(heap->remote.blocks[0]));
        size_t picked = pick_out(owner, &heap->remote, n, &same);
        n -= picked;
        if (!send_to(owner, heap, &same, picked)) {
            heap_return_blocks(heap, same.blocks, picked);
        }
    }
    return n;
}

/* The buffer is full: as much as possible goes to its owners in parcels. */
static void send_remote(struct heap *heap) {
    heap_enter(heap);
    size_t n = empty_remote(heap);
    if (heap->remote_mixed) {
        n = send_mixed(heap, n);
    } else if (send_to(page_word_owner(heap->remote_key ^ heap->tag), heap, &heap->remote, n)) {
        n = 0;
    }
    heap_return_blocks(heap, heap->remote.blocks, n);
    uint64_t flushes =
        atomic_load_explicit(&heap->counters.remote_flushes, memory_order_relaxed); /* its own */
    if (UNLIKELY(flushes % FLUSHES_FOR_A_REQUEST == 1)) {
        decay_request();
    }
    heap_leave(heap);
}

static bool buffer_remote(struct heap *heap, void *block, uint32_t word) {
    unsigned size_class = page_word_class(word);
    uint32_t n = remote_count(heap);
    uint32_t key = heap->tag ^ page_word(page_word_owner(word), 0);
    if (n == 0) {
        heap->remote_key = key;
        heap->remote_mixed = false;
        heap->remote_bytes = 0;
    }
    size_t bytes = heap->remote_bytes + (size_class < KEPT_CLASSES ? 0 : size_classes[size_class].bytes);
    if (n == REMOTE_BLOCKS || bytes > REMOTE_BYTES_MAX) {
        return false;
    }
    heap->remote_mixed = heap->remote_mixed || key != heap->remote_key;
    heap->remote_bytes = bytes;
    heap_put_remote(heap, n, block, size_class);
    return true;
}

bool heap_hold_remote(struct heap *heap, void *block, uint32_t word) {
    return heap_keep_remote(heap, block, page_word_class(word)) || buffer_remote(heap, block, word);
}

void heap_free_remote(struct heap *heap, void *block, uint32_t word) {
    if (!heap_hold_remote(heap, block, word)) {
        send_remote(heap);
        (void)heap_hold_remote(heap, block, word);
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
