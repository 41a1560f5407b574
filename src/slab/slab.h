/* A slab run in use: taking blocks from its two-level bitmap, and returning them.
 *
 * Promises that a block is handed out to one taker only, that a block returned twice or never handed
 * out is found when it is returned, and that nothing here touches the blocks themselves. Taking is
 * for the run's owner alone; returning is for every thread at any time, one atomic operation for each
 * bitmap word. Relies on
 * headers staying readable for ever.
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
    SLAB_PAGE_FREE = 4, /* all blocks of a page are free, some since before; perhaps */
};

/* Makes the header ready for blocks of `size_class`; the bitmap must be zero. */
void slab_init(struct slab *slab, unsigned size_class, uint32_t owner, _Atomic uint64_t *words);

/* Owner, SLAB_CURRENT: up to `want` blocks that were returned, into `out`, lowest address last. `pending`
 * holds what the owner has taken over from the summary and belongs to the current slab; it is empty if there
 * are none.
 */
size_t slab_take_returned(struct slab *slab, uintptr_t start, uint64_t pending[2], void **out, size_t want);
/* The same for blocks that were never handed out. */
size_t slab_take_fresh(struct slab *slab, uintptr_t start, void **out, size_t want);

/* Owner: whether there are such. */
static inline bool slab_has_fresh(const struct slab *slab) {
    /* relaxed: its own */
    return atomic_load_explicit(&slab->bump, memory_order_relaxed) < size_classes[slab->size_class].blocks;
}

/* Owner, before it parks a slab that may still have blocks: writes what is un-bumped and pending to
 * the bitmap. How much of the run was ever used then stands in span_bytes, until somebody takes from it.
 * Returns the bytes of the blocks that were un-bumped. */
size_t slab_settle(struct slab *slab, uint64_t pending[2]);

/* After a word was changed. Read first: the line is everybody's who frees. */
static inline void slab_note_returned(struct slab *slab) {
    if (UNLIKELY(atomic_load_explicit(&slab->returned, memory_order_relaxed) != SLAB_RETURNED)) {
        atomic_store_explicit(&slab->returned, SLAB_RETURNED, memory_order_relaxed);
    }
}

/* The rest of slab_put, for a word that was empty or is perhaps full. */
unsigned slab_note_put(struct slab *slab, unsigned word, uint64_t old, uint64_t now);

/* Adds to a word of which it contains no bit. `alone`: no other thread is here, and a locked instruction
 * would be most of the time that a block takes. (A thread of which nobody knew, and which comes in between,
 * can lose a bit by it, and so the use of a block. A block in two hands it cannot make, because it only adds
 * bits: it takes none of a slab whose heap has a thread, see adopt.c.) */
static inline uint64_t slab_add(_Atomic uint64_t *word, uint64_t mask, bool alone) {
    if (alone) {
        uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, old + mask, memory_order_relaxed);
        return old;
    }
    /* seq_cst, as is the summary in slab_note_put: the caller reads the slab's state next, and the owner that
     * parks a slab writes the state and then reads the summary; one of the two must see the other.
     * Release within it pairs with the acquire in take_word. An addition, which is one instruction and does
     * not read a page before it writes to it. */
    return atomic_fetch_add_explicit(word, mask, memory_order_seq_cst);
}

/* Any thread: marks the blocks `mask` of word `word` free. `*double_free` gets the bits that were free
 * already: the process must end then. `alone` as above. */
static inline unsigned slab_put(struct slab *slab, unsigned word, uint64_t mask, bool alone,
                                uint64_t *double_free) {
    uint64_t old = slab_add(&slab->words[word], mask, alone);
    *double_free = old & mask;
    if (UNLIKELY(*double_free != 0)) {
        /* The process is about to end; what others see until then shall be as little wrong as can be. Only if
         * nobody has changed the word, because what was taken of it cannot be subtracted. relaxed: likewise
         */
        uint64_t spoilt = old + mask;
        atomic_compare_exchange_strong_explicit(&slab->words[word], &spoilt, old, memory_order_relaxed,
                                                memory_order_relaxed);
        return SLAB_NOTHING;
    }
    slab_note_returned(slab);
    uint64_t now = old | mask;
    /* All blocks of the word are free only if no bit is missing below the highest. */
    bool perhaps_full = (now & (now + 1)) == 0;
    return UNLIKELY(old == 0) || UNLIKELY(perhaps_full) ? slab_note_put(slab, word, old, now) : SLAB_NOTHING;
}

/* True if every block is free; exact while the slab is parked and the owner's lock is held. */
static inline bool slab_all_free(const struct slab *slab) {
    /* acquire pairs with the release of the thread that freed last, so that what the program wrote
     * into its blocks comes before whatever is done with the memory next */
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

/* Bytes of a run of blocks that were perhaps used. */
static inline size_t slab_span(const struct slab *slab) {
    return (uint32_t)atomic_load_explicit(&slab->span_bytes,
                                          memory_order_relaxed); /* a statistic, or the owner's */
}

/* Pages given back of a run that is in its heap's list: bit k stands for its k-th part of SLAB_PURGED_BITS,
 * in whole pages. The heap's lock protects it; relaxed: others read it as a statistic. Whoever takes the run
 * from the list, to take blocks of it, writes the span anew, and so ends it. */
#define SLAB_PURGED_BITS 32
static inline uint32_t slab_purged(const struct slab *slab) {
    return (uint32_t)(atomic_load_explicit(&slab->span_bytes, memory_order_relaxed) >> 32);
}

static inline void slab_set_purged(struct slab *slab, uint32_t purged) {
    atomic_store_explicit(&slab->span_bytes, slab_span(slab) | (size_t)purged << 32, memory_order_relaxed);
}

/* Pages that a bit stands for. */
static inline size_t slab_pages_of_a_bit(const struct slab *slab) {
    size_t pages = slab->run_slabs * (SLAB_BYTES / OS_PAGE_BYTES);
    return (pages + SLAB_PURGED_BITS - 1) / SLAB_PURGED_BITS;
}

static inline size_t slab_purged_bytes(const struct slab *slab) {
    return bit_count(slab_purged(slab)) * slab_pages_of_a_bit(slab) * OS_PAGE_BYTES;
}

/* The next pages of the run that hold nothing but free blocks, or what is behind the last block, as offsets
 * into it; the first ones with *end = 0. False if there are no more. Of a slab in its heap's list, with the
 * heap's lock, so that nobody takes from it. */
bool slab_next_hole(const struct slab *slab, size_t *from, size_t *end);

#endif
