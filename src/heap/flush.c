#include "heap/flush.h"

#include "arena/run.h"
#include "base/quotient.h"
#include "heap/alone.h"
#include "heap/bins.h"
#include "heap/relief.h"
#include "os/report.h"

#include <string.h>

/* Where a block lies. */
struct spot {
    struct slab *slab;
    size_t number; /* of the block in its run */
};

static RARE _Noreturn void report_block(const char *action, const char *detail, const void *block,
                                        const struct slab *slab) {
    size_t bytes = slab == NULL ? 0 : size_classes[slab->size_class].bytes;
    report_misuse(&(struct misuse){.action = action,
                                   .detail = detail,
                                   .pointer = block,
                                   .block_bytes = bytes,
                                   .slab = slab == NULL ? 0 : arena_address(slab)});
}

#define DOUBLE_FREE "double free"
#define INVALID_FREE "invalid free"

/* Whether block `number`, of `bytes` each, begins at `offset` in its run, and was handed out. relaxed: the
 * thread holds a block of the slab, which keeps it in use, and what is read was written before the block was
 * handed out; where it does not, that is the misuse looked for. */
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

/* Says what is wrong with a block that `find` took for odd, and ends the process. */
static RARE _Noreturn void report_odd(const char *action, const void *block) {
    struct region *region = region_of((uintptr_t)block);
    if (region == NULL) {
        report_block(action, "not a block of this heap", block, NULL);
    }
    struct slab *slab = region_slab(region, region_run_index(region, (uintptr_t)block));
    /* relaxed, here and below: as in is_block */
    if (!slab_state_has_blocks(atomic_load_explicit(&slab->state, memory_order_relaxed))) {
        report_block(strcmp(action, INVALID_FREE) == 0 ? DOUBLE_FREE : action, "its slab is no longer in use",
                     block, slab);
    }
    const struct size_class *c = &size_classes[slab->size_class];
    size_t offset = (uintptr_t)block - arena_address(slab);
    if (offset % c->bytes != 0) {
        report_block(action, "not the start of a block", block, slab);
    }
    if (offset / c->bytes >= atomic_load_explicit(&slab->bump, memory_order_relaxed)) {
        report_block(action, "a block that was never allocated", block, slab);
    }
    report_block(action, NULL, block, slab); /* nothing is wrong by now: two threads' doing */
}

void heap_check_block(const char *action, const void *block) {
    struct spot spot;
    const struct size_class *class;
    if (UNLIKELY(!find(block, &spot, &class))) {
        report_odd(action, block);
    }
}

static RARE _Noreturn void report_twice(const struct slab *slab, unsigned word, uint64_t twice) {
    size_t number = word * 64 + bit_lowest(twice);
    uintptr_t block = arena_address(slab) + number * size_classes[slab->size_class].bytes;
    report_block(DOUBLE_FREE, NULL, (void *)block, slab);
}

/* Does what slab_put has told of: see enum slab_event. */
static NOINLINE void follow(struct heap *heap, struct slab *slab, size_t bytes, unsigned events) {
    if (events & SLAB_PAGE_FREE) {
        relief_note_page(heap, bytes);
    }
    if (events & SLAB_HAS_FREE) {
        bin_queue(heap, slab);
    }
    if (events & SLAB_ALL_FREE) {
        bin_release_if_free(heap, slab);
    }
}

/* Returns the blocks `mask` of one bitmap word. `*alone` is what heap_is_alone has said, and is set anew
 * where that may have changed. */
static ALWAYS_INLINE void put(struct heap *heap, struct slab *slab, const struct size_class *c, unsigned word,
                              uint64_t mask, bool *alone) {
    uint64_t twice;
    unsigned events = slab_put(slab, c, word, mask, *alone, &twice);
    if (UNLIKELY(twice != 0)) {
        report_twice(slab, word, twice);
    }
    if (UNLIKELY(events != SLAB_NOTHING)) {
        follow(heap, slab, c->bytes, events);
        *alone = heap_is_alone(); /* the library's thread may have been started */
    }
}

/* Adds block `number` of the run to those of its word that are to go back. */
static ALWAYS_INLINE uint64_t add(uint64_t mask, size_t number, const void *block, const struct slab *slab) {
    uint64_t bit = (uint64_t)1 << number % 64;
    if (UNLIKELY((mask & bit) != 0)) {
        report_block(DOUBLE_FREE, NULL, block, slab); /* before another thread gets the first */
    }
    return mask | bit;
}

/* Adds the blocks from `next` on to `mask`, as long as they are of the word whose first block is at
 * `word_start`. What is odd is left to the caller, but for a block that is there twice. Returns where it
 * stopped. */
static NOINLINE void *const *gather(const struct size_class *c, const struct slab *slab, uintptr_t word_start,
                                    uint64_t *mask, void *const *next, void *const *end) {
    const uint64_t reciprocal = c->reciprocal;
    const size_t bytes = c->bytes;
    /* Blocks of the word that were handed out. relaxed: as in is_block */
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
        slab_note_returned(spot.slab);
        put(heap, spot.slab, c, (unsigned)(spot.number / 64), mask, &alone);
        bytes += (size_t)(next - first) * c->bytes;
    }
    relief_note_returned(heap, bytes);
    heap_leave(heap);
}

/* Notes that a block comes back to the slab, which is not of `kind`; false if it is not but for that. */
static NOINLINE bool note_first_returned(struct slab *slab, uint32_t kind) {
    if (!slab_is_but_for_returned(slab, kind)) {
        return false;
    }
    slab_note_returned(slab);
    return true;
}

/* Returns blocks of a class whose runs are one slab: the loop of programs that drop what they built. Of what
 * is the same for all blocks, nothing is read anew behind the atomic operations. Returns where something odd
 * is, or `end`. */
static ALWAYS_INLINE void *const *return_small(struct heap *heap, unsigned size_class, void *const *next,
                                               void *const *end) {
    const struct size_class *c = &size_classes[size_class];
    const uint64_t reciprocal = quotient_reciprocal(c->bytes);
    const size_t bytes = c->bytes;
    const size_t reach = min_size(64 * bytes, SLAB_BYTES); /* of a word's blocks */
    const uint32_t kind = slab_kind(size_class);
    uintptr_t base = 0; /* of the region of the block before; `extent` is its length */
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
            extent = __atomic_load_n(&region->bytes, __ATOMIC_RELAXED); /* see region.h */
        }
        struct slab *slab = region_slab_at(base, (at - base) >> SLAB_SHIFT);
        size_t number = quotient_if_whole(reciprocal, at % SLAB_BYTES);
        /* relaxed, both: as in is_block */
        size_t used = atomic_load_explicit(&slab->bump, memory_order_relaxed);
        if (UNLIKELY(!slab_is(slab, kind) && !note_first_returned(slab, kind)) || UNLIKELY(number >= used)) {
            break;
        }
        uint64_t mask = (uint64_t)1 << number % 64;
        next++;
        if (next < end && (uintptr_t)*next - at + reach < 2 * reach) { /* perhaps a block of the same word */
            uintptr_t word_start = at - number % 64 * bytes;
            used = min_size(used - number / 64 * 64, 64);
            for (; next < end && (uintptr_t)*next - word_start < reach; next++) {
                size_t other = quotient_if_whole(reciprocal, (uintptr_t)*next - word_start);
                if (other >= used) {
                    break;
                }
                mask = add(mask, other, *next, slab);
            }
            slab_note_returned(slab); /* a look for holes may have taken the note away meanwhile */
        }
        put(heap, slab, c, (unsigned)(number / 64), mask, &alone);
    }
    return next;
}

void heap_return_class(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    const struct size_class *c = &size_classes[size_class];
    void *const *left = blocks;
    if (LIKELY(c->run_slabs == 1)) {
        heap_enter(heap);
        left = return_small(heap, size_class, blocks, blocks + n);
        relief_note_returned(heap, (size_t)(left - blocks) * c->bytes);
        heap_leave(heap);
    }
    heap_return_blocks(heap, left, (size_t)(blocks + n - left)); /* what is odd: it says how */
}
