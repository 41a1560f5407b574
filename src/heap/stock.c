#include "heap/stock.h"

#include "arena/arena.h"
#include "arena/decay.h"
#include "heap/slack.h"

#include <limits.h>

/* A slab full of pointers, each in four bytes: how far it is from somewhere below, in units that every
 * block's address is a multiple of. */
struct stock_slab {
    struct stock_slab *next;
    struct slab *header;
    uint32_t count;
    uint32_t most; /* that it ever had */
    bool clean;    /* beyond those no page was touched */
    uint32_t blocks[];
};
#define STOCK_SLAB_BLOCKS ((SLAB_BYTES - sizeof(struct stock_slab)) / sizeof(uint32_t))
#define UNIT_SHIFT 3

/* After so many, whether they are used again is looked at. */
#define STOCKED_WORTH_A_LOOK_BYTES ((size_t)1 << 20)

/* Refills after stocks were found to take too much, until they may grow again. */
#define REFILLS_BEFORE_STOCKS 64

/* Half of what four bytes reach lies below a stock, half above. */
static uintptr_t origin(const struct stock_slab *slab) {
    return (uintptr_t)slab - ((uintptr_t)1 << (31 + UNIT_SHIFT));
}

/* False if a block is too far away, or none. */
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

/* The heap's lock is held, here and in what follows. */
static void set_count(struct stock *stock, size_t n) {
    atomic_store_explicit(&stock->blocks, (uint32_t)n,
                          memory_order_relaxed); /* a hint elsewhere: stock_count */
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
    slab->count = slab->most = 0;
    slab->clean = taken.zero && !taken.resident;
    return slab;
}

/* Without the heap's lock. */
static void give_back(struct stock_slab *slab) {
    size_t used = sizeof *slab + slab->most * sizeof *slab->blocks;
    arena_give(slab->header, slab->clean ? used : SLAB_BYTES, false);
}

/* Whether so many bytes more may lie in slabs and stocks. Once they were too many, half of it must be gone,
 * and the program must want blocks again: of one that drops all that it has, nothing is worth keeping. */
static bool may_grow(struct heap *heap, int64_t bytes) {
    int64_t most = slack_allowed();
    uint64_t refills = atomic_load_explicit(&heap->counters.refills, memory_order_relaxed); /* its own */
    if (heap->stocks_refused && refills - heap->refills_refused < REFILLS_BEFORE_STOCKS) {
        return false;
    }
    heap->stocks_refused = slack_resident() + bytes > (heap->stocks_refused ? most / 2 : most);
    heap->refills_refused = refills;
    return !heap->stocks_refused;
}

static void return_all(struct heap *heap) {
    for (unsigned c = 0; c < TINY_CLASSES; c++) {
        stock_return(heap, heap, c);
    }
}

static void note_put(struct heap *heap, int64_t bytes) {
    slack_add(heap, bytes);
    count(&heap->counters.flushes_stocked, 1);
    heap->stocked_bytes += (size_t)bytes;
    if (UNLIKELY(heap->stocked_bytes >= STOCKED_WORTH_A_LOOK_BYTES)) {
        heap->stocked_bytes = 0;
        decay_look();
    }
}

bool stock_put(struct heap *heap, unsigned size_class, void *const *blocks, size_t n) {
    if (!may_grow(heap, bytes_of(size_class, n))) {
        return_all(heap);
        return false;
    }
    struct stock *stock = &heap->stocks[size_class];
    lock_acquire(&heap->lock);
    if (stock->top == NULL || stock->top->count + n > STOCK_SLAB_BLOCKS) {
        lock_release(&heap->lock);
        struct stock_slab *fresh = make();
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
        top->most = top->count > top->most ? top->count : top->most;
        set_count(stock, stock_count(heap, size_class) + n);
    }
    lock_release(&heap->lock);
    if (LIKELY(packed)) {
        note_put(heap, bytes_of(size_class, n));
    }
    return packed;
}

size_t stock_take(struct heap *heap, unsigned size_class, void **out, size_t want) {
    struct stock *stock = &heap->stocks[size_class];
    size_t n = 0;
    struct stock_slab *empty = NULL;
    lock_acquire(&heap->lock);
    struct stock_slab *top = stock->top;
    if (top != NULL) {
        n = min_size(want, top->count);
        top->count -= (uint32_t)n;
        unpack(top, top->count, out, n);
        set_count(stock, stock_count(heap, size_class) - n);
        if (top->count == 0) {
            pop(stock);
            empty = top;
        }
    }
    lock_release(&heap->lock);
    if (empty != NULL) {
        give_back(empty);
    }
    slack_add(heap, -bytes_of(size_class, n));
    count(&heap->counters.refills_stock, n > 0);
    return n;
}

static _Atomic uint64_t returned; /* blocks, from all stocks */

uint64_t stocks_returned_blocks(void) {
    return atomic_load_explicit(&returned, memory_order_relaxed); /* a statistic */
}

/* Blocks unpacked at once. */
#define RETURNED_BLOCKS 256

static void return_blocks(struct heap *self, unsigned size_class, const struct stock_slab *slab) {
    void *blocks[RETURNED_BLOCKS];
    for (uint32_t i = 0; i < slab->count;) {
        size_t n = min_size(slab->count - i, RETURNED_BLOCKS);
        unpack(slab, i, blocks, n);
        slack_add(self, -bytes_of(size_class, n));
        heap_return_class(self, size_class, blocks, n);
        i += (uint32_t)n;
    }
}

/* The top of the stock becomes the caller's; NULL if there is none. */
static struct stock_slab *take_top(struct heap *heap, unsigned size_class) {
    struct stock *stock = &heap->stocks[size_class];
    lock_acquire(&heap->lock);
    struct stock_slab *top = stock->top;
    if (top != NULL) {
        pop(stock);
        set_count(stock, stock_count(heap, size_class) - top->count);
        stock->seen = (uint32_t)stock_count(heap, size_class);
    }
    lock_release(&heap->lock);
    return top;
}

/* Up to `*most` slabs of pointers, which that is lowered by. */
static size_t return_some(struct heap *self, struct heap *heap, unsigned size_class, unsigned *most) {
    struct stock_slab *slab;
    size_t n = 0;
    heap_enter(self);
    while (*most > 0 && stock_count(heap, size_class) > 0 && (slab = take_top(heap, size_class)) != NULL) {
        --*most;
        n += slab->count;
        return_blocks(self, size_class, slab);
        give_back(slab);
    }
    atomic_fetch_add_explicit(&returned, n, memory_order_relaxed); /* a statistic */
    heap_leave(self);
    return n;
}

size_t stock_return(struct heap *self, struct heap *heap, unsigned size_class) {
    unsigned all = UINT_MAX;
    return return_some(self, heap, size_class, &all);
}

/* Whether it has as many blocks as at the last look. */
static bool is_unused(struct heap *heap, unsigned size_class) {
    struct stock *stock = &heap->stocks[size_class];
    lock_acquire(&heap->lock);
    size_t n = stock_count(heap, size_class);
    bool unused = n > 0 && stock->seen == n;
    stock->seen = (uint32_t)n;
    lock_release(&heap->lock);
    return unused;
}

void stock_trim(struct heap *heap, unsigned size_class) {
    if (is_unused(heap, size_class)) {
        stock_return(heap, heap, size_class);
    }
}

bool stocks_look_after(unsigned most) {
    bool more = false;
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        for (unsigned c = 0; c < TINY_CLASSES; c++) {
            if (stock_count(heap, c) > 0 && most > 0 && is_unused(heap, c)) {
                return_some(NULL, heap, c, &most);
            }
            more = more || stock_count(heap, c) > 0;
        }
    }
    return more;
}
