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
#include <string.h>

/* A stack of free blocks of one size class, in an array that grows on demand. All zero, it is both
 * empty and full. Its size is the scale of class offsets in page-map words. */
struct magazine {
    void **top;       /* above the newest block */
    void **base;      /* the oldest block */
    void **end;       /* behind the last block that it may hold */
    uint8_t batch;    /* most blocks that the last refill might bring */
    uint8_t borrowed; /* blocks of larger classes in a row, instead of a refill */
    bool flushed;     /* since the last refill */
    uint8_t refills;  /* times that it ran empty or full since it last grew, or was to */
    uint16_t seen;    /* blocks when trim_some last looked, or MAGAZINE_SEEN_NEVER */
    bool overflowed;  /* more came back than it had room for, since it last grew */
    uint8_t hidden;   /* room of the array in HIDDEN_BLOCKS, where that is more than the capacity; else 0 */
};
/* `seen` of a magazine that was refilled or flushed since the last look. */
#define MAGAZINE_SEEN_NEVER UINT16_MAX
_Static_assert(sizeof(struct magazine) == CLASS_SCALE, "class offsets in page-map words are scaled by this");

/* Where a magazine is refilled from. */
struct bin {
    struct slab *current;
    struct slab *aside; /* has blocks that were never used; waits while other slabs have used ones */
    struct slab *_Atomic partial; /* list of partly-used slabs, doubly linked: see partial.h */
    struct slab *partial_last;    /* the last of the list; under the heap's lock */
    uint64_t pending[2];          /* bitmap words of the current slab that were taken over from its summary */
    uint16_t fresh;               /* new slabs in a row with no used block in between: the program grows */
    bool used_up;                 /* the last slab that was current had nothing left in the end */
    _Atomic uint32_t partial_count; /* slabs in the list; relaxed: as heap.partial_slabs */
};

/* A class of blocks that are larger than a page, and the exact class beside it: see ahead.h. */
struct witness {
    uint32_t run;   /* address of the run that is to tell next, in slabs; 0 for none */
    int8_t trust;   /* runs that what was told last serves for; or, negated, that are left out for it */
    uint8_t turns;  /* of these, those that are still to come */
    uint8_t copies; /* that may yet get pages ahead of use in the run */
};
#define WITNESSES 32 /* eight for each doubling, from a page to MID_MAX_BYTES */

/* Blocks that a magazine had no room for: see stock.h. Under the heap's lock. */
struct stock {
    struct stock_slab *top;
    _Atomic uint32_t blocks; /* relaxed everywhere: written under the lock, a hint without it */
    uint32_t seen;           /* blocks at the last look whether they are used */
};

/* Batches of blocks are counted by size: 1, 2-3, 4-7 and so on; the last count has all larger ones, too. */
#define BATCH_SIZES 8

/* Counts of a heap. relaxed everywhere: stored by the owner alone, and statistics or hints for all others */
struct counters {
    _Atomic uint64_t refills, refilled_blocks;
    _Atomic uint64_t refills_parcels, refills_stock, refills_current, refills_partial, refills_inbox,
        refills_adopted;
    _Atomic uint64_t refills_fresh;
    _Atomic uint64_t refill_batches[BATCH_SIZES], flush_batches[BATCH_SIZES]; /* by log2 of the blocks */
    _Atomic uint64_t flushes, flushed_blocks;
    _Atomic uint64_t flushes_full, flushes_stocked, flushes_exit, flushes_reclaim, flushes_api, flushes_idle;
    _Atomic uint64_t flushes_surplus;
    _Atomic uint64_t remote_frees; /* blocks of other heaps, without those counted in remote_kept */
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

/* Counts of all threads that have no heap; relaxed additions, because several threads may make them at
 * once. */
extern INTERNAL struct counters counters_of_no_heap;

static inline void count_without_heap(_Atomic uint64_t *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* a statistic */
}

static inline void count_batch(_Atomic uint64_t batches[BATCH_SIZES], size_t blocks) { /* blocks > 0 */
    count(&batches[min_size(bit_highest(blocks), BATCH_SIZES - 1)], 1);
}

static inline void count_refill(struct counters *c, size_t blocks) {
    count(&c->refills, 1);
    count(&c->refilled_blocks, blocks);
    count_batch(c->refill_batches, blocks);
}

static inline void count_flush(struct counters *c, _Atomic uint64_t *cause, size_t blocks) {
    count(&c->flushes, 1);
    count(cause, 1);
    count(&c->flushed_blocks, blocks);
    count_batch(c->flush_batches, blocks);
}

/* Most blocks in a remote buffer, or in a parcel. */
#define REMOTE_BLOCKS 256
/* Most bytes that the blocks in a remote buffer may take: with more it is flushed before it is full. */
#define REMOTE_BYTES_MAX ((size_t)256 << 10)

/* Parcels that a heap has. */
#define PARCELS 16
/* Fewer blocks of one owner go to their slabs: they are not worth a parcel. */
#define PARCEL_BLOCKS_LEAST 4
struct parcel {
    uint32_t count;
    void *blocks[REMOTE_BLOCKS];
};

/* Runs of the large lane that a heap keeps: see runs.h. A word is a block's address and the slabs of its run,
 * or 0. Where nothing else is said, only the owner reads and writes. */
#define RUNS_KEPT 16
struct kept_runs {
    _Atomic uintptr_t words[RUNS_KEPT]; /* put by the owner, taken by anyone; orders: see empty in runs.c */
    _Atomic uint32_t counted_slabs; /* that the arena was told of; under the heap's lock: see count_kept */
    unsigned newest;                /* where the last run was put */
    uint32_t freed, wanted;         /* bit n: runs of n slabs were freed; and were taken after that */
    uint32_t kept_slabs;            /* in the words, or more: others may have returned some */
    /* Uses that runs kept in vain are charged to; frees that the last pause was to last, and that are left of
     * it. */
    uint32_t credit, patience, left_out;
    bool missed;   /* one was wanted since the last was replaced, and those that were kept did not fit */
    uint32_t puts; /* runs that were to be kept, since the start */
    int64_t tails_later_bytes; /* changes that tails_change has not counted yet */
    uint64_t surplus_ticks;    /* os_ticks when return_surplus was last called */
    uint32_t least_slabs;      /* the least that kept_slabs was since then */
    uint64_t looked_ticks;     /* os_ticks when runs_put last looked because time had gone by */
    _Atomic uint64_t seen;     /* counters.large_kept when runs_return_unused last looked; relaxed: a hint */
};

/* A shared heap serves threads that have none, under a lock; the one of samples has nothing but sampled
 * blocks: it neither gives nor takes slabs. */
enum heap_state { HEAP_ACTIVE, HEAP_ABANDONED, HEAP_SHARED, HEAP_OF_SAMPLES };

/* Where a thread has its heap. */
typedef struct heap *_Atomic heap_slot;

/* How far a search for holes has come: see holes.h. */
struct search {
    uint32_t heap;    /* id of the one that it has come to */
    uint32_t heaps;   /* left in this round */
    uint32_t classes; /* of the heap, left in this round; from the largest down: their pages are worth most */
    uint32_t slabs;   /* of the class, left in this round */
    uint64_t purged;  /* bytes that all threads had purged when the round began */
};

/* Padding is what keeps the lines apart. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct heap {
    struct magazine magazines[SIZE_CLASSES]; /* first: a class offset is an offset into the heap */
    uint32_t tag;                            /* page_word(id, 0); 0 in the heap of no thread */
    uint32_t id;
    /* The tag, xor page_word(owner, 0) for the owner of the first block in the remote buffer: a page-map
     * word, xor the tag and this, is a class offset if the block is that owner's (release_of_others). Without
     * meaning while the buffer is empty. */
    uint32_t remote_key;
    bool remote_mixed; /* the remote buffer's blocks are of several owners */
    /* counters.remote_frees when the remote buffer was last empty: those since then are in it. relaxed
     * everywhere: only the owner writes, others read it as a statistic */
    _Atomic uint64_t remote_base;
    size_t remote_bytes;            /* of the remote buffer's blocks */
    void **slots_free, **slots_end; /* what is left of the room for magazines' arrays, behind the heap */
    size_t room_bytes;              /* of blocks that the magazines have, or had, room for */
    size_t unborrowed_bytes; /* that refills brought where the class might have borrowed: see borrow.h */
    int64_t taken_bytes;     /* that came to the magazines and did not go back; the program may hold them */
    /* The heap's part of what all heaps cache: see cached.h. relaxed: its own; a hint for others */
    _Atomic int64_t told_bytes;
    struct search search;     /* the owner's, for holes */
    uint32_t asked_last;      /* id of the heap that adopt_slab asked last */
    uint32_t trimmed;         /* the class whose magazine trim_some looked at last */
    uint64_t trim_ticks;      /* os_ticks when trim_for_a_slab last had some looked at */
    bool stocks_refused;      /* stocks took too much when may_grow (stock.c) last looked */
    bool stocks_left;         /* of stocks that took too much, some are still to go back */
    uint64_t refills_refused; /* counters.refills when may_grow last looked */
    size_t stocked_bytes;     /* put into stocks since decay_look was last called for that */
    uint32_t slabs_opened; /* full slabs that the owner's frees opened since decay_look was called for it */
    size_t unlooked_bytes; /* that may yet come back to slabs before relief_look is called */
    size_t page_bytes;     /* of pages that relief_note_page was told of since the last relief_look */
    uint8_t lean_classes;  /* make_some_lean has yet to shrink the magazines of the classes below this one */
    uint8_t lean_looks;    /* calls of relief_look until magazines of the tiny lane may grow large again */
    /* idle_caches_empty is at it; has yet to empty the magazines of the classes below this one; and the
     * least that slack_resident was since it last emptied one. */
    bool emptying;
    uint8_t full_classes;
    int64_t slack_then;
    struct kept_runs runs;
    uint64_t used_bins[(SIZE_CLASSES + 63) / 64]; /* bitmap: classes that have had a slab */
    int64_t fresh_bytes; /* of blocks never handed out, not yet in the sum of all: see fresh.h */
    int64_t slack_bytes; /* put into slabs less taken from them, not yet in the sum of all: see slack.h */
    /* Not 0 while the owner is behind the fast path and may sleep holding on to the heap: see heap_enter.
     * relaxed, and in the order of the owner's program: others read it only of a thread that sleeps */
    _Atomic uint32_t busy;
    struct counters counters;

    struct owner {       /* of an active heap; under the registry's lock */
        heap_slot *slot; /* in its thread_self; NULL if the heap cannot be taken from it */
        int thread;
        uint64_t activity;     /* activity_of the heap when it was last looked at */
        uint64_t switches;     /* os_switches of the thread when it was last looked at, or 0 */
        uint32_t idle;         /* looks in a row that found both unchanged */
        uint32_t quiet;        /* looks in a row that found the activity unchanged */
        uint32_t patience;     /* idle looks after which the heap is taken */
        uint32_t wait, waited; /* looks to leave out, and left out last, as the thread was awake */
    } owner;

    /* What other threads touch stands on lines of its own, two of them: processors fetch lines in pairs. The
     * inbox is pushed to in bin_queue and emptied in bin_drain_inbox; relaxed elsewhere: a hint. */
    _Alignas(2 * CACHE_LINE_BYTES) struct slab *_Atomic inbox; /* slabs that have free blocks again */
    _Atomic uint32_t partial_slabs; /* in all lists; relaxed: written under the lock, a hint without it */
    struct lock lock;               /* the lists of partly-used slabs, and who owns the slabs in them */
    _Atomic uint32_t state;         /* enum heap_state; relaxed but where parcel_send says otherwise */
    /* trim has yet to give back its pages; under the registry's lock while the heap is in a list */
    bool untrimmed;
    /* A list of abandoned heaps, doubly linked; whether it is that of the warm ones; and ever_abandoned when
     * this heap was abandoned. Under the registry's lock. */
    struct heap *next_abandoned, **abandoned_link;
    bool warm;
    uint64_t left_as;
    /* One bit for each parcel; orders: see parcel.c. */
    _Atomic uint32_t parcels_claimed, parcels_posted;
    _Atomic uint32_t parcels_left_out; /* parcels of few blocks that are yet to be refused; relaxed: a hint */
    uint32_t parcel_opened;            /* number of the one that its owner opened last; the owner's */
    uint64_t refills_seen; /* counters.refills when parcels_look_after last looked; the background thread's */

    /* From the tag to here, on one page, is what every thread needs; bins and buffers take others as they are
     * used. */
    _Alignas(2 * CACHE_LINE_BYTES) struct bin bins[SIZE_CLASSES];
    struct witness witnesses[WITNESSES];
    void *remote[REMOTE_BLOCKS];
    struct stock stocks[SIZE_CLASSES];
    struct parcel parcels[PARCELS];
};

/* The calling thread's heap, or NULL, is not taken from it until heap_leave; calls nest. Whoever uses a heap
 * after something that may sleep must have entered it before: see reclaim.c. */
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

/* A heap and the room behind it for its magazines' arrays. */
#define HEAP_BYTES (6 * SLAB_BYTES)

/* The class that a page-map word of a heap's slab names. */
static inline unsigned page_word_class(uint32_t word) {
    return (word & ((1u << PAGE_WORD_OWNER_SHIFT) - 1)) / CLASS_SCALE;
}

/* Blocks in another heap's magazine. A guess: the owner may be pushing and popping meanwhile. The fields are
 * plain words, written whole. */
static inline __attribute__((no_sanitize("thread"))) size_t
magazine_count_from_outside(const struct magazine *m) {
    void **top = *(void **const volatile *)&m->top;
    void **base = *(void **const volatile *)&m->base;
    size_t n = (size_t)(top - base);
    return n < UINT16_MAX ? n : 0; /* the array was being exchanged */
}

static inline size_t magazine_capacity(const struct magazine *m) {
    return (size_t)(m->end - m->base);
}

static inline size_t magazine_count(const struct magazine *m) {
    return (size_t)(m->top - m->base);
}

/* Forgets the `n` oldest blocks, which are somewhere else by now. */
static inline void magazine_drop_oldest(struct magazine *m, size_t n) {
    size_t left = magazine_count(m) - n;
    memmove(m->base, m->base + n, left * sizeof *m->base);
    m->top = m->base + left;
}

#endif
