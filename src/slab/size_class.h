/* Size classes: which block size serves a request, and how blocks lie in a slab run.
 *
 * 8, then every 16 bytes to 128, then eight to a doubling up to 64 KiB. Promises that the table from
 * size to class is the only place that knows the spacing: `free` reads the class from the page map,
 * never from a size, so the table may change while the program runs. Relies on layout
 * (the bytes of a slab) and os (those of a page).
 */
#ifndef HAKMEM_SLAB_SIZE_CLASS_H
#define HAKMEM_SLAB_SIZE_CLASS_H

#include "arena/layout.h"
#include "base/bits.h"
#include "os/os.h"

#include <stdatomic.h>

#define BLOCK_ALIGNMENT_BYTES 16

#define TINY_CLASSES 33
#define SPACED_CLASSES 81
/* Behind the spaced classes there is one exact class for each spaced class of the mid lane: see
 * size_class_grow. */
#define EXACT_CLASSES (SPACED_CLASSES - TINY_CLASSES)
#define SIZE_CLASSES (SPACED_CLASSES + EXACT_CLASSES)
/* A class offset is the number of a class times this, the size of its entry in size_classes. */
#define CLASS_SCALE 32

struct size_class {
    uint64_t reciprocal;      /* block index = offset * reciprocal >> RECIPROCAL_SHIFT */
    uint64_t last_word;       /* mask of the blocks that exist in the last bitmap word */
    uint32_t bytes;           /* of a block; 0 in an exact class that is not in use */
    uint32_t blocks;          /* in a run */
    uint16_t words;           /* bitmap words in use */
    uint16_t magazine_blocks; /* most that a magazine may hold */
    uint8_t run_slabs;        /* length of a run */
};

/* Offsets in a run are below 2^21 and blocks below 2^16 + 1 bytes: with 40 bits the product stays
 * under 2^59 and the quotient is exact. */
#define RECIPROCAL_SHIFT 40

extern INTERNAL struct size_class size_classes[SIZE_CLASSES];

/* The class of a class offset (class * CLASS_SCALE). */
static inline const struct size_class *size_class_at(uint32_t class_offset) {
    _Static_assert(sizeof(struct size_class) == CLASS_SCALE, "the offset is one into the table");
    return (const struct size_class *)(const void *)((const char *)size_classes + class_offset);
}

/* Whether a block surely begins at `address`, which lies in a run of the class: false, too, where a run has
 * several slabs, because only the slab's header then says where it begins. */
static inline bool size_class_surely_begins_at(const struct size_class *c, uintptr_t address) {
    size_t offset = address % SLAB_BYTES;
    size_t number = (size_t)(offset * c->reciprocal >> RECIPROCAL_SHIFT);
    return c->run_slabs == 1 && number * c->bytes == offset && number < c->blocks;
}

/* Class offset (class * CLASS_SCALE) for each size up to TINY_MAX_BYTES. */
extern INTERNAL const uint16_t tiny_class_offsets[TINY_MAX_BYTES + 1];

/* Sets the bytes that one magazine may hold, which are SIZE_CLASS_MAGAZINE_BYTES until then. At most once,
 * before there is a magazine. */
#define SIZE_CLASS_MAGAZINE_BYTES ((size_t)384 << 10)
void size_class_init(size_t magazine_bytes);

/* The spaced class that serves `size`, where 128 < size <= MID_MAX_BYTES. */
static inline unsigned size_class_by_shifts(size_t size) {
    unsigned top = bit_highest(size - 1);
    return (top - 7) * 8 + (unsigned)((size - 1) >> (top - 3)) + 1;
}

/* The spaced class that serves `size`, of the tiny or the mid lane. */
static inline unsigned size_class_of(size_t size) { /* size <= MID_MAX_BYTES */
    return size <= TINY_MAX_BYTES ? tiny_class_offsets[size] / CLASS_SCALE : size_class_by_shifts(size);
}

/* What a spaced class of the mid lane has been asked for, as far as each request looks at it. */
struct size_class_use {
    /* The largest request of this window of slabs. relaxed everywhere: where a store is lost, that request
     * may get the spaced class, not the exact one. */
    _Atomic uint32_t largest;
    /* The bytes of a block of its exact class, or 0. The release in size_class_grow pairs with the acquire in
     * size_class_for_mid and size_class_exists: whoever sees it sees the class. */
    _Atomic uint32_t exact_bytes;
};
extern INTERNAL struct size_class_use size_class_uses[EXACT_CLASSES];

/* The class that serves a request of the mid lane: the exact one if there is one that is large enough.
 * relaxed and acquire: see size_class_use */
static inline unsigned size_class_for_mid(size_t size) {
    unsigned c = size_class_by_shifts(size);
    struct size_class_use *use = &size_class_uses[c - TINY_CLASSES];
    if (UNLIKELY(size > atomic_load_explicit(&use->largest, memory_order_relaxed))) {
        atomic_store_explicit(&use->largest, (uint32_t)size, memory_order_relaxed);
    }
    return size <= atomic_load_explicit(&use->exact_bytes, memory_order_acquire) ? c + EXACT_CLASSES : c;
}

/* The class that serves a request of the tiny or the mid lane. */
static inline unsigned size_class_for(size_t size) { /* size <= MID_MAX_BYTES */
    return size <= TINY_MAX_BYTES ? tiny_class_offsets[size] / CLASS_SCALE : size_class_for_mid(size);
}

/* To be called when `size_class` gets another run. Where a program fills slab after slab of a spaced class of
 * the mid lane and never asks for blocks as large as they are, the largest that it did ask for becomes an
 * exact class: a program whose blocks are all of 40,000 bytes then loses 0.1 % of them, not 2.4 %. Decided
 * early or not at all, because the free blocks of the spaced class serve fewer requests afterwards. Classes
 * spaced so closely from the start would each keep partly-used slabs, which costs programs with mixed sizes
 * far more. Any thread. */
void size_class_grow(unsigned size_class);
/* How many exact classes there are. */
unsigned size_class_count_exact(void);

/* Whether class `c` is in use: whoever did not get its number from a block or a slab must ask. */
static inline bool size_class_exists(unsigned c) {
    return c < SPACED_CLASSES ||
           /* acquire: see size_class_use */
           atomic_load_explicit(&size_class_uses[c - SPACED_CLASSES].exact_bytes, memory_order_acquire) != 0;
}

/* The smallest spaced class of at least `size` whose blocks all lie on multiples of `alignment`, a power of
 * two; both are MID_MAX_BYTES at most. */
unsigned size_class_aligned(size_t size, size_t alignment);

/* How many words of the bitmap have the blocks of one page; 1, too, where the blocks of one word fill more
 * than a page. */
static inline size_t size_class_words_of_page(size_t block_bytes) {
    return max_size(OS_PAGE_BYTES / (64 * block_bytes), 1);
}

/* The bits of word `word` of the bitmap that stand for blocks. */
static inline uint64_t size_class_word_mask(const struct size_class *c, unsigned word) {
    return word + 1u == c->words ? c->last_word : ~(uint64_t)0;
}

#endif
