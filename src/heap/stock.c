#include "heap/stock.h"

#include "arena/arena.h"
#include "arena/bound.h"
#include "arena/decay.h"
#include "heap/flush.h"
#include "heap/heap_table.h"
#include "heap/runs.h"
#include "heap/slack.h"

#include <stdint.h>

/* A slab of pointers to blocks, each in four bytes: its distance from `origin`, in units of 1 << UNIT_SHIFT
 * bytes, of which every block's address is a multiple. */
struct stock_slab {
    struct stock_slab *next;
    struct slab *header;
    uint32_t count;
    uint32_t blocks[];
};
#define STOCK_SLAB_BLOCKS ((SLAB_BYTES - sizeof(struct stock_slab)) / sizeof(uint32_t))
#define UNIT_SHIFT 3

/* Bytes that a heap puts into stocks for each look whether they are used again (decay_look). */
#define STOCKED_WORTH_A_LOOK_BYTES ((size_t)1 << 20)

/* Refills after stocks were found to take too much, until they may grow again. */
#define REFILLS_BEFORE_STOCKS 64

/* Blocks of the heap's stocks that go back to their slabs with each batch that these do not take. */
#define RETURNED_INSTEAD ((size_t)2048)

/* Of so many blocks in no order a core's own cache holds few: a line of 64 bytes for each. */
#define CACHED_BY_A_CORE_BLOCKS ((size_t)8192)

/* What distances are counted from: half of what four bytes reach lies below the slab, half above. */
static uintptr_t origin(const struct stock_slab *slab) {
    return (uintptr_t)slab - ((uintptr_t)1 << (31 + UNIT_SHIFT));
}

/* Writes pointers to the blocks behind those that the slab counts; false if one of them is too far away, or
 * cannot be a block. */
static bool pack(struct stock_slab *slab, void *const *blocks, size_t n) {
    const uintptr_t from = origin(slab);
    uint32_t *const out = slab->blocks + slab->count;
    uintptr_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        uintptr_t distance = (uintptr_t)blocks[i] - from;
        odd |= distance & ~((uintptr_t)UINT32_MAX << UNIT_SHIFT);
        out[i] = (uint32_t)(distance >> UNIT_SHIFT);
    }
    return odd == 0;
}

static void unpack(const struct stock_slab *slab, uint32_t first, void **out, size_t n) {
    const uintptr_t from = origin(slab);
    const uint32_t *const blocks = slab->blocks + first;
    for (size_t i = 0; i < n; i++) {
        out[i] = (void *)(from + ((uintptr_t)blocks[i] << UNIT_SHIFT));
    }
}

/* set_count, push and pop: the heap's lock is held. */
static void set_count(struct stock *stock, size_t n) {
    atomic_store_explicit(&stock->blocks, (uint32_t)n, memory_order_relaxed); /* relaxed: see stock_count */
}

static void push(struct stock *stock, struct stock_slab *slab) {
    slab->next = stock->top;
    stock->top = slab;
}

static void pop(struct stock *stock) {
    stock->top = stock->top->next;
}

static int64_t bytes_of(unsigned size_class, size_t n) {
    return (int64_t)(n * size_classes[size_class].bytes);
}

static struct stock_slab *make(void) {
    struct taken taken;
    struct slab *header = arena_take(1, 1, SLAB_INTERNAL, ARENA_USE_UNKNOWN, &taken);
    if (header == NULL) {
        return NULL;
    }
    struct stock_slab *slab = (struct stock_slab *)arena_address(header);
    slab->header = header;
    slab->count = 0;
    return slab;
}

/* Gives the slab to the arena. The heap's lock is not held. */
static void give_back(struct stock_slab *slab) {
    arena_give(slab->header, SLAB_BYTES, false);
}

/* Moves up to `most` blocks of the stock, those put last, to `out`; gives how many. Takes the heap's lock. */
static size_t take(struct heap *heap, unsigned size_class, void **out, size_t most) {
    struct stock *stock = &heap->stocks[size_class];
    size_t n = 0;
    struct stock_slab *empty = NULL;
    lock_acquire(&heap->lock);
    struct stock_slab *top = stock->top;
    if (top != NULL) {
        n = min_size(most, top->count);
        top->count -= (uint32_t)n;
        unpack(top, top->count, out, n);
        set_count(stock, stock_count(heap, size_class) - n);
        if (top->count == 0) {
            pop(stock);
            empty = top;
        }
        arena_add_stocked(-bytes_of(size_class, n)); /* under the lock, so that no fork comes between */
    }
    lock_release(&heap->lock);
    if (empty != NULL) {
        give_back(empty);
    }
    return n;
}

static _Atomic uint64_t returned; /* blocks, from all stocks; relaxed everywhere: a statistic */

uint64_t stocks_returned_blocks(void) {
    return atomic_load_explicit(&returned, memory_order_relaxed);
}

/* Blocks that are taken out of a stock at once to be returned: a child of a fork just then loses them. */
#define RETURNED_AT_ONCE 128

/* Returns up to `most` blocks of the heap's stock of the class; gives how many. `self` is the caller's own
 * heap, or NULL. */
static size_t return_some(struct heap *self, struct heap *heap, unsigned size_class, size_t most) {
    void *blocks[RETURNED_AT_ONCE];
    size_t all = 0;
    /* What is there now, and not what its owner may put there meanwhile. */
    most = min_size(most, stock_count(heap, size_class));
    heap_enter(self);
    while (all < most && stock_count(heap, size_class) > 0) {
        size_t n = take(heap, size_class, blocks, min_size(most - all, RETURNED_AT_ONCE));
        slack_add(self, -bytes_of(size_class, n));
        heap_return_class(self, size_class, blocks, n);
        all += n;
    }
    if (all > 0) {
        atomic_fetch_add_explicit(&returned, all, memory_order_relaxed);
    }
    heap_leave(self);
    return all;
}

size_t stock_return(struct heap *self, struct heap *heap, unsigned size_class) {
    return return_some(self, heap, size_class, SIZE_MAX);
}

/* Returns up to `*most` blocks of the heap's stocks, and lowers `*most` by as many. */
COLD static void return_of_heap(struct heap *self, struct heap *heap, size_t *most) {
    for (unsigned c = 0; c < SIZE_CLASSES && stocks_were_used(heap); c++) {
        if (*most > 0 && stock_count(heap, c) > 0) {
            *most -= return_some(self, heap, c, *most);
        }
    }
}

void stocks_return(struct heap *self, struct heap *heap) {
    size_t most = SIZE_MAX;
    return_of_heap(self, heap, &most);
    (void)runs_return(heap);
}

void stocks_relieve(size_t most) {
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit() && most > 0; id++) {
        (void)runs_return(heap_by_id(id));
        return_of_heap(NULL, heap_by_id(id), &most);
    }
}

/* Whether `bytes` more may lie in the heap's stocks. Once that was too much, all that they hold must have
 * gone back, and the program must want blocks again: of one that drops all that it has, nothing is worth
 * keeping. */
static bool may_grow(struct heap *heap, int64_t bytes) {
    /* relaxed: its own */
    uint64_t refills = atomic_load_explicit(&heap->counters.refills, memory_order_relaxed);
    if (heap->stocks_refused &&
        (heap->stocks_left || refills - heap->refills_refused < REFILLS_BEFORE_STOCKS)) {
        return false;
    }
    bool refused = bytes > arena_stock_room() || slack_resident() + bytes > slack_allowed();
    heap->stocks_left = heap->stocks_left || (refused && !heap->stocks_refused);
    heap->stocks_refused = refused;
    heap->refills_refused = refills;
    return !refused;
}

/* Counts `bytes` that were put into the heap's stocks. */
static void note_put(struct heap *heap, int64_t bytes) {
    slack_add(heap, bytes);
    heap->stocked_bytes += (size_t)bytes;
    if (UNLIKELY(heap->stocked_bytes >= STOCKED_WORTH_A_LOOK_BYTES)) {
        heap->stocked_bytes = 0;
        decay_look();
    }
}

/* Returns a little of the heap's stocks, with each flush that they do not take. */
static void shrink(struct heap *heap) {
    size_t most = RETURNED_INSTEAD;
    return_of_heap(heap, heap, &most);
    heap->stocks_left = most == 0;
}

bool stock_put(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    if (!may_grow(heap, bytes_of(size_class, n))) {
        if (heap->stocks_left) {
            shrink(heap);
        }
        return false;
    }
    struct stock *stock = &heap->stocks[size_class];
    struct stock_slab *fresh = NULL;
    lock_acquire(&heap->lock);
    if (stock->top == NULL || stock->top->count + n > STOCK_SLAB_BLOCKS) {
        lock_release(&heap->lock);
        fresh = make();
        if (fresh == NULL) {
            return false;
        }
        lock_acquire(&heap->lock);
        push(stock, fresh);
    }
    struct stock_slab *top = stock->top;
    bool packed = pack(top, blocks, n);
    if (LIKELY(packed)) {
        top->count += (uint32_t)n;
        set_count(stock, stock_count(heap, size_class) + n);
        count(&heap->counters.flushes_stocked, 1);
        arena_add_stocked(bytes_of(size_class, n));
    } else if (fresh != NULL) {
        pop(stock);
    }
    lock_release(&heap->lock);
    if (LIKELY(packed)) {
        note_put(heap, bytes_of(size_class, n));
    } else if (fresh != NULL) {
        give_back(fresh);
    }
    return packed;
}

/* Has the processor fetch the blocks, all at once: they lie in no order, and whoever writes to one after the
 * other waits for each. */
COLD static void fetch_ahead(void *const *blocks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        __builtin_prefetch(blocks[i], 1);
    }
    __asm__ volatile(""); /* a function that only fetches has no effect, to the compiler, and is not called */
}

size_t stock_take(struct heap *heap, unsigned size_class, void **out, size_t want) {
    size_t n = take(heap, size_class, out, want);
    if (stock_count(heap, size_class) > CACHED_BY_A_CORE_BLOCKS) {
        fetch_ahead(out, n);
    }
    slack_add(heap, -bytes_of(size_class, n));
    count(&heap->counters.refills_stock, n > 0);
    return n;
}

/* Whether the stock has as many blocks as at the last look, which this is from now on. */
static bool is_unused(struct heap *heap, unsigned size_class) {
    struct stock *stock = &heap->stocks[size_class];
    lock_acquire(&heap->lock);
    size_t n = stock_count(heap, size_class);
    bool unused = n > 0 && stock->seen == n;
    stock->seen = (uint32_t)n;
    lock_release(&heap->lock);
    return unused;
}

/* Returns up to `most` blocks of the stock if it is unused; gives how many. What is left counts as seen, so
 * that the next look goes on with it. */
static size_t return_unused(struct heap *self, struct heap *heap, unsigned size_class, size_t most) {
    struct stock *stock = &heap->stocks[size_class];
    if (most == 0 || stock_count(heap, size_class) == 0 || !is_unused(heap, size_class)) {
        return 0;
    }
    size_t n = return_some(self, heap, size_class, most);
    lock_acquire(&heap->lock);
    stock->seen = (uint32_t)stock_count(heap, size_class);
    lock_release(&heap->lock);
    return n;
}

void stock_trim(struct heap *heap, unsigned size_class) {
    return_unused(heap, heap, size_class, SIZE_MAX);
}

COLD void stocks_look_after(size_t most) {
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        for (unsigned c = 0; c < SIZE_CLASSES && stocks_were_used(heap); c++) {
            most -= return_unused(NULL, heap, c, most);
        }
        runs_return_unused(heap);
    }
}
