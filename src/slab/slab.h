/* A slab run in use: taking blocks from its two-level bitmap, and returning them.
 *
 * Promises that a block is handed out to one taker only, that a block returned twice or never handed out is
 * found when it is returned, and that nothing here touches the blocks themselves. Taking is for the run's
 * owner alone; returning is for every thread at any time, one atomic operation for each bitmap word. Relies
 * on headers staying readable for ever.
 */
#ifndef HAKMEM_SLAB_SLAB_H
#define HAKMEM_SLAB_SLAB_H

#include "arena/slab_header.h"
#include "base/bits.h"
#include "os/os.h"
#include "slab/size_class.h"

/* What returning blocks has led to. */
enum slab_event {
    SLAB_NOTHING = 0,
    SLAB_HAS_FREE = 1,  /* a word has become non-zero: see whether the slab must be queued */
    SLAB_ALL_FREE = 2,  /* every word is full: see whether the slab can be released */
    SLAB_PAGE_FREE = 4, /* perhaps all blocks of a page are free, some of them since before */
};

/* Makes the header of a run that is SLAB_INTERNAL ready for blocks of `size_class`, as SLAB_CURRENT of heap
 * `owner`. The bitmap at `words` must be zero. */
void slab_init(struct slab *slab, unsigned size_class, uint32_t owner, _Atomic uint64_t *words);

/* Owner, of its SLAB_CURRENT run at `start`: takes up to `want` blocks that were returned, into `out`, lowest
 * address last, and returns how many. `pending` holds the summary bits that the owner has taken over and not
 * used up; it is empty where 0 is returned. */
size_t slab_take_returned(struct slab *slab, uintptr_t start, uint64_t pending[2], void **out, size_t want);
/* Owner, of its SLAB_CURRENT run at `start`: takes up to `want` blocks that were never handed out, into
 * `out`, lowest address last, and returns how many. */
size_t slab_take_fresh(struct slab *slab, uintptr_t start, void **out, size_t want);

/* Owner: whether the slab has blocks that were never handed out. */
static inline bool slab_has_fresh(const struct slab *slab) {
    /* relaxed: only the owner writes it */
    return atomic_load_explicit(&slab->bump, memory_order_relaxed) < size_classes[slab->size_class].blocks;
}

/* Owner, before it puts a slab that may still have blocks into its list: marks those that were never handed
 * out free in the bitmap, and gives `pending` back to the summary. If nothing of the run was resident when it
 * was taken, span_bytes then says how much of it was ever used, until somebody takes from it. Returns the
 * bytes of the blocks that were never handed out. */
size_t slab_settle(struct slab *slab, uint64_t pending[2]);

/* To be called before blocks are added to the bitmap, or after it by whoever holds the run. Reads first,
 * because all threads that free share the line; relaxed, both: a hint. */
static inline void slab_note_returned(struct slab *slab) {
    if (UNLIKELY(atomic_load_explicit(&slab->returned, memory_order_relaxed) != SLAB_RETURNED)) {
        atomic_store_explicit(&slab->returned, SLAB_RETURNED, memory_order_relaxed);
    }
}

/* The kind of a run of one slab, of blocks of `size_class`, to which some came back: for slab_is. */
static inline uint32_t slab_kind(unsigned size_class) {
    return SLAB_CURRENT | size_class << 8 | (uint32_t)SLAB_RETURNED << 16 | (uint32_t)1 << 24;
}

/* Whether the slab is of `kind`, and in whatever state of those that have blocks: all that there is to know
 * of it before blocks come back, by one look. relaxed: for a thread that holds a block of the slab, nothing
 * but the state and the mark changes meanwhile, and nothing else follows from these. */
static inline bool slab_is(const struct slab *slab, uint32_t kind) {
    return atomic_load_explicit(&slab->kind, memory_order_relaxed) - kind <= SLAB_PARTIAL - SLAB_CURRENT;
}

/* The same, whether blocks came back or not: to be noted then. */
static inline bool slab_is_but_for_returned(const struct slab *slab, uint32_t kind) {
    uint32_t noted = atomic_load_explicit(&slab->kind, memory_order_relaxed) | (uint32_t)UINT8_MAX << 16;
    return noted - (kind | (uint32_t)UINT8_MAX << 16) <= SLAB_PARTIAL - SLAB_CURRENT;
}

/* The rest of slab_put, for word `word` of the bitmap, which was `old` and is `now`: for one that may have
 * been empty, or whose blocks may all be free. Returns the events. */
unsigned slab_note_put(struct slab *slab, const struct size_class *c, unsigned word, uint64_t old,
                       uint64_t now);

/* Adds `mask` to a word that should have none of its bits; returns what the word was. `alone` says that there
 * is no other thread: then a plain load and store (relaxed) do, and a locked instruction would be most of the
 * time that a block takes. (A thread of which nobody knew, and which comes in between, can lose a bit by it,
 * and so the use of a block. A block in two hands it cannot make, because it only adds bits: it takes none of
 * a slab whose heap has a thread, see adopt.c.) */
static inline uint64_t slab_add(_Atomic uint64_t *word, uint64_t mask, bool alone) {
    if (alone) {
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, old + mask, memory_order_relaxed);
        return old;
    }
    /* seq_cst, as is the summary in slab_note_put: the caller reads the slab's state next, and the owner that
     * parks a slab writes the state and then reads the summary; one of the two must see the other. Release
     * within it pairs with the acquire in take_word, put_own and next_block. An addition, which is one
     * instruction and does not read a page before it writes to it. */
    return atomic_fetch_add_explicit(word, mask, memory_order_seq_cst);
}

/* Any thread, after slab_note_returned: marks the blocks `mask` of word `word` of a run of class `c` free,
 * and returns the events. `*double_free` gets the bits that were free already: the process must end then.
 * `alone` as for slab_add. The blocks are what holds the run: once their bits are added, it may be given back
 * and be anything else, so that from then on nothing of the header is read or written but what tolerates
 * that. */
static inline unsigned slab_put(struct slab *slab, const struct size_class *c, unsigned word, uint64_t mask,
                                bool alone, uint64_t *double_free) {
    uint64_t old = slab_add(&slab->words[word], mask, alone);
    *double_free = old & mask;
    if (UNLIKELY(*double_free != 0)) {
        /* The process is about to end; what others see until then shall be as little wrong as can be. Only if
         * nobody has changed the word, because what was taken of it cannot be subtracted. relaxed, both:
         * nothing follows from it. */
        uint64_t spoilt = old + mask;
        atomic_compare_exchange_strong_explicit(&slab->words[word], &spoilt, old, memory_order_relaxed,
                                                memory_order_relaxed);
        return SLAB_NOTHING;
    }
    uint64_t now = old | mask;
    /* What is above the lowest block in use is nothing, or what was added: so it is wherever there was
     * nothing, and wherever all blocks are free by now. */
    return UNLIKELY((old & (now + 1)) == 0) ? slab_note_put(slab, c, word, old, now) : SLAB_NOTHING;
}

/* True if every block is free; exact while the slab is parked and the owner's lock is held. */
static inline bool slab_all_free(const struct slab *slab) {
    /* acquire pairs with the release in slab_note_put and put_own, where the last full word was counted, so
     * that what the program wrote into its blocks comes before whatever is done with the memory next */
    return atomic_load_explicit(&slab->full_words, memory_order_acquire) ==
           size_classes[slab->size_class].words;
}

/* Number of bitmap words that may have a free block: a cheap measure of how empty the slab is. */
static inline unsigned slab_free_words(const struct slab *slab) {
    /* relaxed: a guess is enough */
    return bit_count(atomic_load_explicit(&slab->summary[0], memory_order_relaxed)) +
           bit_count(atomic_load_explicit(&slab->summary[1], memory_order_relaxed));
}

/* Free blocks in the bitmap plus those never handed out; exact while nobody takes or returns. */
size_t slab_count_free(const struct slab *slab);

/* Bytes from the start of a run of blocks on that were perhaps used. */
static inline size_t slab_span(const struct slab *slab) {
    /* relaxed: a statistic, or read by the owner */
    return (uint32_t)atomic_load_explicit(&slab->span_bytes, memory_order_relaxed);
}

/* Which pages of a run in its heap's list were given back: each bit stands for slab_pages_of_a_bit pages, the
 * lowest for the first. The heap's lock protects it; relaxed: others read it as a statistic. Whoever takes
 * the run from the list, to take blocks of it, writes the span anew, and so ends it. */
#define SLAB_PURGED_BITS 32
static inline uint32_t slab_purged(const struct slab *slab) {
    return (uint32_t)(atomic_load_explicit(&slab->span_bytes, memory_order_relaxed) >> 32);
}

static inline void slab_set_purged(struct slab *slab, uint32_t purged) {
    atomic_store_explicit(&slab->span_bytes, slab_span(slab) | (size_t)purged << 32, memory_order_relaxed);
}

/* How many pages one bit of slab_purged stands for. */
static inline size_t slab_pages_of_a_bit(const struct slab *slab) {
    size_t pages = slab->run_slabs * (SLAB_BYTES / OS_PAGE_BYTES);
    return (pages + SLAB_PURGED_BITS - 1) / SLAB_PURGED_BITS;
}

static inline size_t slab_purged_bytes(const struct slab *slab) {
    return bit_count(slab_purged(slab)) * slab_pages_of_a_bit(slab) * OS_PAGE_BYTES;
}

/* A run of blocks, all of which are free, is about to be given to the arena: leaves in its header what of it
 * is not resident. */
static inline void slab_leave(struct slab *slab) {
    /* relaxed: the arena's lock carries it to whoever takes the run next */
    atomic_store_explicit(&slab->full_words, (uint16_t)(slab_purged_bytes(slab) / OS_PAGE_BYTES),
                          memory_order_relaxed);
}

/* For whoever has taken the run from the arena, before slab_init: what slab_leave left, at most as long as a
 * run of `run_slabs` is. A guess: parts of it may have been in other runs since. */
static inline size_t slab_left_purged_bytes(const struct slab *slab, unsigned run_slabs) {
    size_t pages =
        atomic_load_explicit(&slab->full_words, memory_order_relaxed); /* relaxed: see slab_leave */
    return min_size(pages * OS_PAGE_BYTES, run_slabs * SLAB_BYTES);
}

/* Finds the next pages of the run, from offset *end on (0 for the first), that hold nothing but free blocks
 * or what is behind the last block; *from and *end get their offsets. False if there are no more. For a slab
 * in its heap's list, with the heap's lock held, so that nobody takes from it. */
bool slab_next_hole(const struct slab *slab, size_t *from, size_t *end);

#endif
