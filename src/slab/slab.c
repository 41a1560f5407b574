#include "slab/slab.h"

#include <string.h>

void slab_init(struct slab *slab, unsigned size_class, uint32_t owner, _Atomic uint64_t *words) {
    slab->words = words;
    slab->size_class = (uint8_t)size_class;
    slab->next = slab->previous = NULL;
    /* relaxed: the run is published by the release below, and to other threads by the program when it
     * hands a block on */
    atomic_store_explicit(&slab->summary[0], 0, memory_order_relaxed);
    atomic_store_explicit(&slab->summary[1], 0, memory_order_relaxed);
    atomic_store_explicit(&slab->bump, 0, memory_order_relaxed);
    atomic_store_explicit(&slab->full_words, 0, memory_order_relaxed);
    atomic_store_explicit(&slab->returned, SLAB_NONE_RETURNED, memory_order_relaxed);
    /* release pairs with the acquire in bin_release_if_free: the state is SLAB_INTERNAL by now */
    atomic_store_explicit(&slab->owner, owner, memory_order_release);
    /* release pairs with the acquire in arena/walk.c */
    atomic_store_explicit(&slab->state, SLAB_CURRENT, memory_order_release);
}

/* Writes the addresses of the blocks `bits` of a word, whose first block is at `first`, to what lies below
 * `end`; highest address first. */
static void expand(uintptr_t first, size_t bytes, uint64_t bits, void **end) {
    for (; bits != 0; bits &= bits - 1) {
        *--end = (void *)(first + bit_lowest(bits) * bytes);
    }
}

/* Takes up to `want` blocks of a word, and writes them to the last of the `want` places at `out`. `*rest`
 * says whether the word has more. */
static size_t take_word(struct slab *slab, const struct size_class *c, uintptr_t start, unsigned word,
                        void **out, size_t want, bool *rest) {
    /* acquire pairs with the release in slab_add, and in the fetch_or below: what the freeing threads did to
     * the blocks is over */
    uint64_t bits = atomic_exchange_explicit(&slab->words[word], 0, memory_order_acquire);
    if (bits == size_class_word_mask(c, word)) {
        /* relaxed: only the owner lowers it, and it is read as exact only after parking */
        atomic_fetch_sub_explicit(&slab->full_words, 1, memory_order_relaxed);
    }
    size_t n = bit_count(bits);
    *rest = n > want;
    if (n > want) {
        uint64_t kept = bits;
        for (size_t i = 0; i < want; i++) {
            kept &= kept - 1;
        }
        bits ^= kept;
        /* release pairs with the acquire above: whoever takes these later must see what their freeing threads
         * did */
        atomic_fetch_or_explicit(&slab->words[word], kept, memory_order_release);
        n = want;
    }
    expand(start + (size_t)word * 64 * c->bytes, c->bytes, bits, out + want);
    return n;
}

size_t slab_take_fresh(struct slab *slab, uintptr_t start, void **out, size_t want) {
    const struct size_class *c = &size_classes[slab->size_class];
    /* relaxed, both: only the owner writes it; readers of other threads see it with the block itself */
    uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    size_t n = min_size(want, c->blocks - bump);
    atomic_store_explicit(&slab->bump, bump + (uint32_t)n, memory_order_relaxed);
    uintptr_t block = start + (bump + n) * c->bytes;
    for (size_t i = 0; i < n; i++) {
        block -= c->bytes;
        out[i] = (void *)block;
    }
    return n;
}

size_t slab_take_returned(struct slab *slab, uintptr_t start, uint64_t pending[2], void **out, size_t want) {
    const struct size_class *c = &size_classes[slab->size_class];
    size_t left = want;
    for (unsigned half = 0; half < 2 && left > 0; half++) {
        /* The summary bit is cleared before the word is emptied: a block returned in between finds the word
         * non-zero and is taken with it, one returned later sets the bit anew. relaxed first: an idle look;
         * acquire pairs with the release in slab_note_put and slab_settle */
        if (atomic_load_explicit(&slab->summary[half], memory_order_relaxed) != 0) {
            pending[half] |= atomic_exchange_explicit(&slab->summary[half], 0, memory_order_acquire);
        }
        while (pending[half] != 0 && left > 0) {
            unsigned bit = bit_lowest(pending[half]);
            unsigned word = half * 64 + bit;
            bool rest = false;
            if (word < c->words) {
                left -= take_word(slab, c, start, word, out, left, &rest);
            }
            if (!rest) {
                pending[half] &= pending[half] - 1;
            }
        }
    }
    if (left > 0 && left < want) { /* take_word has put them at the end of the places that there are */
        memmove(out, out + left, (want - left) * sizeof *out);
    }
    return want - left;
}

/* Owner: marks blocks free that it holds in no other form. No order of its own for them: the summary's
 * release in slab_settle comes after. */
static void put_own(struct slab *slab, unsigned word, uint64_t mask) {
    uint64_t full = size_class_word_mask(&size_classes[slab->size_class], word);
    /* acquire pairs with the release in slab_add: where this completes a word, what the threads that returned
     * its other blocks did to the slab is over when it is given back */
    uint64_t old = atomic_fetch_or_explicit(&slab->words[word], mask, memory_order_acquire);
    slab_note_returned(slab);
    if ((old | mask) == full) {
        /* release pairs with the acquire in slab_all_free: whoever finds the slab free sees what was acquired
         * above */
        atomic_fetch_add_explicit(&slab->full_words, 1, memory_order_release);
    }
}

size_t slab_settle(struct slab *slab, uint64_t pending[2]) {
    const struct size_class *c = &size_classes[slab->size_class];
    uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed); /* its own */
    if (slab->taken_clean && bump < c->blocks) {
        atomic_store_explicit(&slab->span_bytes, (size_t)bump * c->bytes, memory_order_relaxed); /* its own */
    }
    for (uint32_t block = bump; block < c->blocks; block = (block / 64 + 1) * 64) {
        unsigned word = block / 64;
        uint64_t mask = size_class_word_mask(c, word) & ~bits_below(block % 64);
        put_own(slab, word, mask);
        pending[word / 64] |= (uint64_t)1 << (word % 64);
    }
    atomic_store_explicit(&slab->bump, c->blocks, memory_order_relaxed);
    for (unsigned half = 0; half < 2; half++) {
        /* release pairs with the acquire in slab_take_returned, by the next owner */
        atomic_fetch_or_explicit(&slab->summary[half], pending[half], memory_order_release);
        pending[half] = 0;
    }
    return (size_t)(c->blocks - bump) * c->bytes;
}

/* Whether all blocks of the page that word `word` belongs to are free, as far as words tell, where those of
 * that word are: a page of small blocks has several words. */
static bool page_is_free(const struct slab *slab, const struct size_class *c, unsigned word) {
    unsigned of_a_page = (unsigned)size_class_words_of_page(c->bytes);
    unsigned first = word - word % of_a_page;
    for (unsigned i = first; i < first + of_a_page && i < c->words; i++) {
        /* relaxed: a guess */
        if (i != word &&
            atomic_load_explicit(&slab->words[i], memory_order_relaxed) != size_class_word_mask(c, i)) {
            return false;
        }
    }
    return true;
}

unsigned slab_note_put(struct slab *slab, const struct size_class *c, unsigned word, uint64_t old,
                       uint64_t now) {
    unsigned events = SLAB_NOTHING;
    if (old == 0) {
        /* seq_cst: pairs with park, as slab_add says; release within it pairs with the acquire in
         * slab_take_returned */
        atomic_fetch_or_explicit(&slab->summary[word / 64], (uint64_t)1 << (word % 64), memory_order_seq_cst);
        events |= SLAB_HAS_FREE;
    }
    if (now == size_class_word_mask(c, word)) {
        /* Before the word is counted, because from then on the slab may be another's. */
        bool page = old != 0 && page_is_free(slab, c, word);
        /* release so that whoever counts the last word sees all of this thread's work on the slab,
         * acquire so that this thread, if it is the one, sees the others'; seq_cst: see
         * bin_release_if_free */
        uint16_t full = atomic_fetch_add_explicit(&slab->full_words, 1, memory_order_seq_cst);
        if (full + 1u == c->words) {
            events |= SLAB_ALL_FREE;
        } else if (page) {
            events |= SLAB_PAGE_FREE;
        }
    }
    return events;
}

size_t slab_count_free(const struct slab *slab) {
    const struct size_class *c = &size_classes[slab->size_class];
    /* relaxed: a statistic */
    uint32_t bump = atomic_load_explicit(&slab->bump, memory_order_relaxed);
    size_t free = c->blocks - bump;
    if (atomic_load_explicit(&slab->returned, memory_order_relaxed) == SLAB_NONE_RETURNED) {
        return free; /* the bitmap may not even be resident, and shall stay so */
    }
    for (unsigned word = 0; word < (bump + 63) / 64; word++) {
        free += bit_count(atomic_load_explicit(&slab->words[word], memory_order_relaxed));
    }
    return free;
}

/* The first block from `from` on that is free, or that is not if `free` is false; `blocks` if there is
 * none. */
static size_t next_block(const struct slab *slab, size_t from, size_t blocks, bool free) {
    while (from < blocks) {
        /* acquire pairs with the release in slab_add: what the program wrote into the block comes before what
         * is done with its pages */
        uint64_t word = atomic_load_explicit(&slab->words[from / 64], memory_order_acquire);
        uint64_t bits = (free ? word : ~word) & ~bits_below(from % 64);
        if (bits != 0) {
            return min_size(from / 64 * 64 + bit_lowest(bits), blocks);
        }
        from = (from / 64 + 1) * 64;
    }
    return blocks;
}

/* The first block from `from` on at which a hole may begin, or `blocks`: any free one, where a page has fewer
 * than 64 blocks (`least`); else the first of a word whose blocks are all free, because the others are too
 * many, and too seldom free. */
static size_t next_run(const struct slab *slab, size_t from, size_t blocks, size_t least) {
    while (least >= 64 && from / 64 < blocks / 64) {
        /* relaxed: next_block below acquires */
        if (atomic_load_explicit(&slab->words[from / 64], memory_order_relaxed) == UINT64_MAX) {
            break;
        }
        from = (from / 64 + 1) * 64;
    }
    return next_block(slab, from, blocks, true);
}

bool slab_next_hole(const struct slab *slab, size_t *from, size_t *end) {
    const struct size_class *c = &size_classes[slab->size_class];
    size_t block = (*end + c->bytes - 1) / c->bytes;
    while (block < c->blocks) {
        block = next_run(slab, block, c->blocks, OS_PAGE_BYTES / c->bytes);
        size_t past = next_block(slab, block, c->blocks, false);
        *from = round_up(block * c->bytes, OS_PAGE_BYTES);
        *end = past == c->blocks ? c->run_slabs * SLAB_BYTES : round_down(past * c->bytes, OS_PAGE_BYTES);
        if (block < c->blocks && *from < *end) {
            return true;
        }
        block = past;
    }
    return false;
}
