#include "heap/magazine.h"

#include "arena/decay.h"
#include "heap/bins.h"
#include "heap/borrow.h"
#include "heap/cached.h"
#include "heap/event.h"
#include "heap/flush.h"
#include "heap/parcel.h"
#include "heap/reclaim.h"
#include "heap/stock.h"
#include "os/clock.h"
#include "os/report.h"

#include <string.h>

/* Blocks that a magazine's first array has room for; each that follows has room for GROWTH_FACTOR times as
 * many. */
#define FIRST_CAPACITY 16
#define GROWTH_FACTOR 4
/* Blocks moved at once between a magazine and the slabs, at most: a program that works in rounds somewhat
 * larger than a magazine moves as many in each round, whether it needs them or not. */
#define BATCH_BLOCKS ((size_t)128)
/* What the first refill after a flush brings; each that follows brings twice as much. A program that works in
 * rounds somewhat smaller than a magazine would otherwise be left with too many blocks at the end of each,
 * flush them, and miss them in the next. */
#define BATCH_BLOCKS_LEAST ((size_t)16)
/* A refill of a magazine that has not run full brings REFILL_BYTES, and as much more after each
 * REFILLS_FOR_MORE refills: most sizes of most threads are wanted a few times only. */
#define REFILL_BYTES ((size_t)8 << 10)
#define REFILLS_FOR_MORE 8u
/* A magazine grows when it has run empty or full more often than this, beyond CAPACITY_ONE_WAY blocks only if
 * it has run full. */
#define USES_BEFORE_GROWTH 3
#define CAPACITY_ONE_WAY 64
/* The unit in which a magazine's `hidden` says how much room its array has. */
#define HIDDEN_BLOCKS ((size_t)16)
/* Magazines that make_some_lean empties at once. */
#define LEAN_AT_ONCE 4

/* The arrays of magazines lie behind the heap. One of more than CAPACITY_ONE_WAY pointers is only made where
 * it leaves room there for so many for each class, besides those of a first array. */
#define CAPACITY_OF_ALL 32

/* Refills, or flushes, for each that is reported upwards. */
#define EVENT_INTERVAL 16

/* After so many full slabs (4 MiB at least) have got free blocks, decay_look sees to it that these do not lie
 * idle. */
#define OPENED_WORTH_A_LOOK 64

/* Fewer blocks, as those above 32 KiB always are, are not worth a stock: the next refill would empty it, and
 * its slab of pointers would come and go with each round. */
#define STOCKED_LEAST 8

/* Magazines that trim_some looks at with each event. */
#define TRIMMED_AT_ONCE 4
/* Those that it looks at when a class has taken one more slab, and the time between two such looks: 0.1 ms or
 * so. */
#define TRIMMED_FOR_A_SLAB 64
#define TRIM_TICKS (OS_TICKS_SHORT / 4)
/* Bytes of blocks that a magazine must hold to be worth emptying. */
#define TRIMMED_BYTES ((size_t)8 << 10)

/* Looks at the next `magazines` magazines. One that was neither refilled nor flushed since it was last looked
 * at, and holds as many blocks, has probably not been used, while others were refilled and flushed some five
 * hundred times, or got slabs: what it holds goes to its slabs, and these perhaps to other classes. */
static void trim_some(struct heap *heap, unsigned magazines) {
    for (unsigned i = 0; i < magazines; i++) {
        heap->trimmed = (heap->trimmed + 1) % SIZE_CLASSES;
        struct magazine *m = &heap->magazines[heap->trimmed];
        size_t held = magazine_count(m);
        if (held > 0 && held == m->seen && held * size_classes[heap->trimmed].bytes >= TRIMMED_BYTES) {
            heap_flush_magazine(heap, heap->trimmed, FLUSH_IDLE);
            bin_retire(heap, heap->trimmed);
            held = 0;
        }
        m->seen = (uint16_t)held;
        if (stock_has_blocks(heap, heap->trimmed)) {
            stock_trim(heap, heap->trimmed);
        }
    }
}

/* A class has got one more slab, where what other classes hold idle might have done. They are looked at once
 * in a while only: a program that takes and gives back blocks of many classes in turn, and holds none, looks
 * idle in each, and would lose and get slabs for ever. */
static void trim_for_a_slab(struct heap *heap) {
    if (OS_TICKS_SHORT > 0 && os_ticks_passed(&heap->trim_ticks, TRIM_TICKS)) {
        trim_some(heap, TRIMMED_FOR_A_SLAB);
    }
}

static void set_capacity(struct magazine *m, size_t capacity) {
    m->end = m->base + capacity;
    m->refills = 0;
    m->overflowed = false;
}

/* Empties magazines of small blocks, each of which may be the last in a page, and makes them small. A few at
 * once, because each may bring a look for holes. */
static void make_some_lean(struct heap *heap) {
    for (unsigned i = 0; i < LEAN_AT_ONCE && heap->lean_classes > 0; i++) {
        unsigned c = --heap->lean_classes;
        struct magazine *m = &heap->magazines[c];
        heap_flush_magazine(heap, c, FLUSH_IDLE);
        if (magazine_capacity(m) > CAPACITY_ONE_WAY) {
            m->hidden = (uint8_t)max_size(m->hidden, magazine_capacity(m) / HIDDEN_BLOCKS);
            set_capacity(m, CAPACITY_ONE_WAY);
        }
    }
}

static void event_at_intervals(struct heap *heap, const _Atomic uint64_t *counter) {
    if (atomic_load_explicit(counter, memory_order_relaxed) % EVENT_INTERVAL == 0) { /* relaxed: its own */
        heap_event(HEAP_EVENT_IN_PROGRAM);
        trim_some(heap, TRIMMED_AT_ONCE);
        heap_reclaim_look(heap);
    }
}

/* Room for `capacity` pointers behind the heap; NULL if there is too little, with what other classes may
 * need. */
static void **take_room(struct heap *heap, size_t capacity) {
    size_t kept = capacity > FIRST_CAPACITY ? SIZE_CLASSES * FIRST_CAPACITY : 0;
    kept += capacity > CAPACITY_ONE_WAY ? SIZE_CLASSES * CAPACITY_OF_ALL : 0;
    if ((size_t)(heap->slots_end - heap->slots_free) < capacity + kept) {
        return NULL;
    }
    void **array = heap->slots_free;
    heap->slots_free += capacity;
    return array;
}

/* Gives a magazine back, up to `capacity`, the room that it had before make_some_lean. */
static void unhide(struct magazine *m, size_t capacity) {
    size_t room = m->hidden * HIDDEN_BLOCKS;
    set_capacity(m, min_size(capacity, room));
    m->hidden = capacity < room ? m->hidden : 0;
}

/* Makes the magazine larger, with a new array if need be; false if it cannot grow. The old array stays
 * unused. */
static bool grow(struct heap *heap, struct magazine *m, unsigned size_class) {
    size_t most = size_classes[size_class].magazine_blocks;
    if (most > CAPACITY_ONE_WAY) {
        most = round_down(most, HIDDEN_BLOCKS); /* what `hidden` can say */
    }
    size_t had = magazine_capacity(m);
    if (had >= most) {
        return false;
    }
    size_t capacity = min_size(had == 0 ? FIRST_CAPACITY : had * GROWTH_FACTOR, most);
    if (m->hidden > 0) {
        unhide(m, capacity);
        return true;
    }
    void **array = take_room(heap, capacity);
    if (array == NULL) {
        report_fallback(FALLBACK_MAGAZINE_FULL_SIZE, size_classes[size_class].bytes);
        return false;
    }
    size_t held = magazine_count(m);
    for (size_t i = 0; i < held; i++) {
        array[i] = m->base[i];
    }
    m->base = array;
    m->top = array + held;
    set_capacity(m, capacity);
    heap->room_bytes += (capacity - had) * size_classes[size_class].bytes;
    count(&heap->counters.magazine_growths, 1);
    heap_reclaim_look(heap);
    return true;
}

/* Whether the magazine has been used enough to grow. Where blocks are only taken, a larger one would hold
 * more of them and save little. */
static bool is_worth_growing(const struct magazine *m, unsigned size_class) {
    size_t one_way = min_size(CAPACITY_ONE_WAY, size_classes[size_class].magazine_blocks);
    return m->refills > USES_BEFORE_GROWTH && (m->overflowed || magazine_capacity(m) < one_way);
}

static bool must_stay_small(const struct heap *heap, const struct magazine *m, unsigned size_class) {
    return heap->lean_looks > 0 && size_class < TINY_CLASSES && magazine_capacity(m) >= CAPACITY_ONE_WAY;
}

/* Notes that the magazine has run empty or full; returns whether it was made larger for that. */
static bool grow_if_busy(struct heap *heap, struct magazine *m, unsigned size_class) {
    m->refills = (uint8_t)min_size(m->refills + 1u, UINT8_MAX);
    if (m->base == NULL || (is_worth_growing(m, size_class) && !must_stay_small(heap, m, size_class))) {
        m->refills = 0;
        return grow(heap, m, size_class);
    }
    return false;
}

/* Blocks that the refill of an empty magazine is to bring; 0 if it has no array. */
static size_t refill_blocks(struct magazine *m, size_t block_bytes) {
    size_t batch = m->flushed ? 0 : m->batch * 2u;
    m->batch = (uint8_t)min_size(max_size(batch, BATCH_BLOCKS_LEAST), BATCH_BLOCKS);
    m->flushed = false;
    size_t most = m->batch;
    if (!m->overflowed) {
        size_t bytes = REFILL_BYTES * (1 + m->refills / REFILLS_FOR_MORE);
        most = min_size(most, max_size(bytes / block_bytes, 1));
    }
    return min_size((magazine_capacity(m) + 1) / 2, most);
}

static void *refill(struct heap *heap, unsigned size_class, bool may_borrow) {
    struct magazine *m = &heap->magazines[size_class];
    m->seen = MAGAZINE_SEEN_NEVER;
    grow_if_busy(heap, m, size_class);
    void *single[1];
    void **out = m->base;
    size_t n = UNLIKELY(parcels_waiting(heap)) ? parcels_open(heap, m) : 0;
    if (n > 0 && m->top != m->base) {
        count(&heap->counters.refills_parcels, 1);
        count_refill(&heap->counters, n);
        return *--m->top;
    }
    size_t want = refill_blocks(m, size_classes[size_class].bytes);
    if (want == 0) { /* no room for a magazine at all */
        out = single;
        want = 1;
    }
    n = stock_has_blocks(heap, size_class) ? stock_take(heap, size_class, out, want) : 0;
    if (n == 0) {
        n = bin_take_used(heap, size_class, out, want);
    }
    if (n == 0) {
        void *borrowed = may_borrow ? borrow_instead_of_new(heap, size_class) : NULL;
        if (borrowed != NULL) {
            return borrowed;
        }
        n = bin_take(heap, size_class, out, want);
        if (n == 0) {
            return NULL;
        }
    }
    count_refill(&heap->counters, n);
    borrow_note_refill(heap, size_class, n);
    cached_add(heap, size_class, (int64_t)n);
    if (out == m->base) {
        m->top = m->base + (n - 1);
    }
    return out[n - 1];
}

NOINLINE void *heap_refill(struct heap *heap, unsigned size_class, bool may_borrow) {
    may_borrow = may_borrow && borrow_is_due(heap, size_class);
    void *borrowed = may_borrow ? borrow(heap, size_class, LENDERS_BEFORE_SLABS) : NULL;
    if (borrowed != NULL) {
        return borrowed;
    }
    heap_enter(heap);
    const struct counters *c = &heap->counters;
    /* relaxed, here and below: its own */
    uint64_t refills = atomic_load_explicit(&c->refills, memory_order_relaxed);
    uint64_t slabs = atomic_load_explicit(&c->slabs_created, memory_order_relaxed);
    void *block = refill(heap, size_class, may_borrow);
    if (atomic_load_explicit(&c->slabs_created, memory_order_relaxed) != slabs) {
        trim_for_a_slab(heap);
    }
    if (atomic_load_explicit(&c->refills, memory_order_relaxed) != refills) {
        event_at_intervals(heap, &c->refills);
    }
    heap_leave(heap);
    return block;
}

static void make_room(struct heap *heap, unsigned size_class) {
    struct magazine *m = &heap->magazines[size_class];
    m->overflowed = true;
    m->seen = MAGAZINE_SEEN_NEVER;
    if (grow_if_busy(heap, m, size_class) && m->top != m->end) {
        return;
    }
    size_t held = magazine_count(m);
    size_t oldest = (held + 1) / 2;
    if (oldest == 0) {
        return; /* no array: the caller returns the block itself */
    }
    bool stocked = oldest >= STOCKED_LEAST && stock_put(heap, size_class, m->base, oldest);
    if (!stocked) {
        oldest = min_size(oldest, BATCH_BLOCKS);
    }
    count_flush(&heap->counters, &heap->counters.flushes_full, oldest);
    m->flushed = true;
    if (!stocked) {
        heap_return_class(heap, size_class, m->base, oldest);
    }
    magazine_drop_oldest(m, oldest);
    cached_add(heap, size_class, -(int64_t)oldest);
}

NOINLINE void heap_make_room(struct heap *heap, unsigned size_class) {
    heap_enter(heap);
    make_room(heap, size_class);
    if (UNLIKELY(heap->lean_classes > 0)) {
        make_some_lean(heap);
    }
    if (UNLIKELY(heap->slabs_opened >= OPENED_WORTH_A_LOOK)) {
        heap->slabs_opened = 0;
        decay_look(); /* they may be left partly free: see holes.h */
    }
    event_at_intervals(heap, &heap->counters.flushes);
    heap_leave(heap);
}

size_t heap_flush_magazine(struct heap *heap, unsigned size_class, enum flush_cause cause) {
    struct magazine *m = &heap->magazines[size_class];
    struct counters *c = &heap->counters;
    _Atomic uint64_t *const causes[] = {
        [FLUSH_API] = &c->flushes_api,
        [FLUSH_THREAD_EXIT] = &c->flushes_exit,
        [FLUSH_RECLAIM] = &c->flushes_reclaim,
        [FLUSH_IDLE] = &c->flushes_idle,
    };
    size_t held = magazine_count(m);
    if (held > 0) {
        count_flush(c, causes[cause], held);
        m->top = m->base;
        heap_return_class(heap, size_class, m->base, held);
        cached_add(heap, size_class, -(int64_t)held);
    }
    if (cause != FLUSH_IDLE &&
        stock_has_blocks(heap, size_class)) { /* stock_trim sees whether that is idle */
        held += stock_return(heap, heap, size_class);
    }
    return held;
}
