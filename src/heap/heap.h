/* A heap: what one thread allocates from.
 *
 * Magazines in front, slabs of its own behind them, an inbox for what other threads return. What is in a
 * magazine may be of any heap's slabs: a block finds back to its slab by its address. Promises that the
 * magazines, the bins and the remote buffer are touched by the owning thread alone, and that a heap is never
 * unmapped: when its thread ends it waits, slabs and all, for the next thread.
 * Relies on slab and arena.
 */
#ifndef HAKMEM_HEAP_HEAP_H
#define HAKMEM_HEAP_HEAP_H

#include "arena/page_map.h"
#include "os/lock.h"
#include "slab/slab.h"

#include <stdatomic.h>

/* A stack of free blocks of one size class, in an array that grows on demand. All zero, it is both
 * empty and full. Its size is the scale of class offsets in page-map words. */
struct magazine {
    void **top;      /* above the newest block */
    void **base;     /* the oldest */
    void **end;      /* capacity */
    uint16_t batch;  /* blocks of the last refill, at most */
    bool flushed;    /* since then */
    uint8_t refills; /* since the array last grew */
    uint16_t seen;   /* blocks when it was last looked at: see trim_some */
    bool overflowed; /* more came back than it had room for, since the array last grew */
    uint8_t hidden;  /* the array has room for so many times HIDDEN_BLOCKS; 0: for its capacity alone */
};
_Static_assert(sizeof(struct magazine) == CLASS_SCALE, "class offsets in page-map words are scaled by this");

/* Where a magazine is refilled from. */
struct bin {
    struct slab *current;
    struct slab *aside;           /* has blocks that were never used; set aside while others have used ones */
    struct slab *_Atomic partial; /* doubly linked; written under the heap's lock */
    struct slab *partial_last;    /* likewise */
    uint64_t pending[2];          /* words of the current slab taken over from its summary */
    uint32_t fresh;               /* fresh slabs in a row: the program grows */
    _Atomic uint32_t partial_count; /* in the list; relaxed: written under the lock, and a hint without it */
};

/* What a magazine of the tiny lane had no room for: see stock.h. Under the heap's lock. */
struct stock {
    struct stock_slab *top;
    _Atomic uint32_t blocks; /* relaxed: a hint without the lock, and a statistic */
    uint32_t seen;           /* at the last look */
};

/* Batches of blocks are counted by size: 1, 2-3, 4-7 and so on; the last one has all larger ones, too. */
#define BATCH_SIZES 8

/* relaxed loads and stores by the owner, relaxed loads by readers */
struct counters {
    _Atomic uint64_t refills, refilled_blocks;
    _Atomic uint64_t refills_parcels, refills_stock, refills_current, refills_partial, refills_inbox,
        refills_adopted;
    _Atomic uint64_t refills_fresh;
    _Atomic uint64_t refill_batches[BATCH_SIZES], flush_batches[BATCH_SIZES]; /* by log2 of the blocks */
    _Atomic uint64_t flushes, flushed_blocks;
    _Atomic uint64_t flushes_full, flushes_stocked, flushes_exit, flushes_reclaim, flushes_api, flushes_idle;
    _Atomic uint64_t remote_frees; /* but those kept */
    _Atomic uint64_t remote_flushes, remote_kept, remote_parcels;
    _Atomic uint64_t slabs_created, slabs_recycled, slabs_released, slabs_adopted;
    _Atomic uint64_t large_allocs, large_frees, large_kept, huge_allocs, huge_frees, huge_remaps;
    _Atomic uint64_t magazine_growths;
    _Atomic uint64_t populated_slabs, faults_avoided, reclaimed;
};

static inline void count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Of threads that have no heap, all together. */
extern INTERNAL struct counters counters_of_no_heap;

static inline void count_without_heap(_Atomic uint64_t *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* a statistic */
}

static inline void count_batch(_Atomic uint64_t batches[BATCH_SIZES], size_t blocks) { /* blocks > 0 */
    count(&batches[min_size(bit_highest(blocks), BATCH_SIZES - 1)], 1);
}

#define REMOTE_BLOCKS 256
/* A buffer that pins more than this is flushed before it is full. */
#define REMOTE_BYTES_MAX ((size_t)256 << 10)

#define PARCELS 16
/* Fewer blocks are not worth one. */
#define PARCEL_BLOCKS_LEAST 4
struct parcel {
    uint32_t count;
    void *blocks[REMOTE_BLOCKS];
};

/* Runs of the large lane: see runs.h. A word is the address of a block and the slabs of its run, or 0. */
#define RUNS_KEPT 16
struct kept_runs {
    _Atomic uintptr_t words[RUNS_KEPT];  /* put by the owner, taken by anyone */
    _Atomic uint32_t counted_slabs;      /* told to arena_add_kept; under the lock */
    unsigned newest;                     /* the owner's, as are all others: where the last one was put */
    uint32_t freed, wanted;              /* bit n: runs of n slabs were freed, and taken again after that */
    uint32_t kept_slabs;                 /* or more, if others have returned some */
    uint32_t credit, patience, left_out; /* see runs.c */
    uint32_t puts;
    int64_t tails_later_bytes; /* see tails_change */
    uint64_t surplus_ticks;    /* os_ticks when what nobody needed was returned last */
    uint32_t least_slabs;      /* that it was since then */
    _Atomic uint64_t seen;     /* counters.large_kept at the last look */
};

/* A shared heap serves threads that have none, under a lock; the one of samples has nothing but sampled
 * blocks: it neither gives nor takes slabs. */
enum heap_state { HEAP_ACTIVE, HEAP_ABANDONED, HEAP_SHARED, HEAP_OF_SAMPLES };

/* Where a thread has its heap. */
typedef struct heap *_Atomic heap_slot;

/* Where a search for holes is: see holes.h. */
struct search {
    uint32_t heap;
    uint32_t heaps;   /* that are left of this round */
    uint32_t classes; /* of the heap that are left, from the largest down: their pages are worth most */
    uint32_t slabs;   /* of the class that are left */
    uint64_t purged;  /* bytes by all threads when the round began */
};

/* Padding is what keeps the lines apart. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct heap {
    struct magazine magazines[SIZE_CLASSES]; /* first: a class offset is an offset into the heap */
    uint32_t tag;                            /* page_word(id, 0); 0 in the heap of no thread */
    uint32_t id;
    /* What tells class offsets of blocks of the remote buffer's owner, as the tag does of this heap's own,
     * combined with that: see release_of_others. Of no meaning while the buffer is empty. */
    uint32_t remote_key;
    bool remote_mixed; /* the buffer's blocks are of several owners */
    /* counters.remote_frees when the buffer was last empty: the rest is in it. relaxed: the owner's alone;
     * others read it for statistics */
    _Atomic uint64_t remote_base;
    size_t remote_bytes;            /* of the buffer's blocks */
    void **slots_free, **slots_end; /* room for magazine arrays behind the heap */
    struct search search, measured; /* for holes, by the owner: to be purged, and only looked at */
    uint32_t asked_last;            /* heap, for a slab */
    uint32_t trimmed;               /* the class whose magazine was looked at last */
    uint64_t trim_ticks;            /* os_ticks when that was because of a slab */
    bool stocks_refused;            /* they may not grow: see stock.c */
    bool stocks_left;               /* nor have they gone back yet */
    uint64_t refills_refused;       /* at the last look at that */
    size_t stocked_bytes;           /* since a look at them was asked for */
    uint32_t slabs_opened;          /* slabs that its owner's frees have opened for others to be taken from */
    size_t unlooked_bytes;          /* may come back to slabs until its owner looks for holes */
    size_t page_bytes;              /* slack_note_page, since the last look */
    uint8_t lean_classes;           /* the classes below this one are to begin anew, with small magazines */
    uint8_t lean_looks;             /* until they may be large again: slack.c */
    struct kept_runs runs;
    uint64_t used_bins[(SIZE_CLASSES + 63) / 64]; /* bitmap: classes that had a slab */
    int64_t slack_bytes; /* put into slabs less taken from them, and not counted yet: see slack.h */
    /* Not 0 while the owner is behind the fast path and may sleep holding on to the heap. relaxed, and in the
     * order of the owner's program: others read it only of a thread that sleeps */
    _Atomic uint32_t busy;
    struct counters counters;

    struct owner {       /* of an active heap; under the registry's lock */
        heap_slot *slot; /* in its thread_self; NULL if the heap cannot be taken from it */
        int thread;
        uint64_t activity;     /* of the heap when it was last looked at */
        uint64_t switches;     /* of the thread, likewise */
        uint32_t idle;         /* looks in a row that found neither changed */
        uint32_t quiet;        /* looks in a row that found the heap as it was */
        uint32_t patience;     /* so many must be idle */
        uint32_t wait, waited; /* looks left out, since the thread was awake at the last ones */
    } owner;

    /* What other threads touch stands on lines of its own, two of them: processors fetch lines in pairs. */
    _Alignas(2 * CACHE_LINE_BYTES) struct slab *_Atomic inbox; /* slabs that have free blocks again */
    _Atomic uint32_t partial_slabs; /* in the lists; relaxed: written under the lock, and a hint without it */
    struct lock lock;               /* the lists of partly-used slabs, and who owns the slabs in them */
    _Atomic uint32_t state;         /* enum heap_state */
    bool untrimmed;                 /* a thread has had it since its pages went; while in a list, as next */
    struct heap *next_abandoned, **abandoned_link; /* doubly linked, under the registry's lock */
    bool warm;                                     /* in the list of those, likewise */
    uint64_t left_as;                              /* the so many-th that was abandoned, likewise */
    /* One bit for each parcel: see parcel.c. */
    _Atomic uint32_t parcels_claimed, parcels_posted;
    _Atomic uint32_t parcels_left_out; /* those of few blocks that are not to come next */
    struct stock stocks[TINY_CLASSES];
    uint32_t parcel_opened; /* the last one; its owner's */
    uint64_t refills_seen;  /* when parcels_look_after last looked: the background thread's */

    /* On the same page so far is what every thread needs; bins and buffers take others as they are used. */
    _Alignas(2 * CACHE_LINE_BYTES) struct bin bins[SIZE_CLASSES];
    void *remote[REMOTE_BLOCKS];
    struct parcel parcels[PARCELS];
};

/* Whoever uses a heap after something that may sleep must have entered it before: see reclaim.c. */
static inline void heap_enter(struct heap *heap) {
    if (heap != NULL) {
        atomic_store_explicit(&heap->busy, atomic_load_explicit(&heap->busy, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    }
}

static inline void heap_leave(struct heap *heap) {
    if (heap != NULL) {
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(&heap->busy, atomic_load_explicit(&heap->busy, memory_order_relaxed) - 1,
                              memory_order_relaxed);
    }
}

/* A heap with the room for its magazines' arrays. */
#define HEAP_BYTES (6 * SLAB_BYTES)

/* The class that a page-map word of a heap's slab names. */
static inline unsigned page_word_class(uint32_t word) {
    return (word & ((1u << PAGE_WORD_OWNER_SHIFT) - 1)) / CLASS_SCALE;
}

/* A guess: the owner may be pushing and popping meanwhile. Its fields are plain words, written whole. */
static inline __attribute__((no_sanitize("thread"))) size_t
magazine_count_from_outside(const struct magazine *m) {
    void **top = *(void **const volatile *)&m->top;
    void **base = *(void **const volatile *)&m->base;
    size_t n = (size_t)(top - base);
    return n < UINT16_MAX ? n : 0; /* the array was being exchanged */
}

static inline size_t magazine_count(const struct magazine *m) {
    return (size_t)(m->top - m->base);
}

#endif
