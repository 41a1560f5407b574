/* Size classes: which block size serves a request, and how blocks lie in a slab run.
 *
 * 8, then every 16 bytes to 128, then eight to a doubling up to 64 KiB. Promises that the table from
 * size to class is the only place that knows the spacing: `free` reads the class from the page map,
 * never from a size, so the table may change while the program runs. Relies on nothing.
 */
#ifndef HAKMEM_SLAB_SIZE_CLASS_H
#define HAKMEM_SLAB_SIZE_CLASS_H

#include "arena/layout.h"
#include "base/bits.h"

#define TINY_CLASSES 33
#define SIZE_CLASSES 81
/* Room for more, and what the page-map word can name: offset / 32 in 12 bits. */
#define SIZE_CLASSES_MAX 88
#define CLASS_SCALE 32

struct size_class {
    uint64_t reciprocal;      /* block index = offset * reciprocal >> RECIPROCAL_SHIFT */
    uint64_t last_word;       /* mask of the blocks that exist in the last bitmap word */
    uint32_t bytes;           /* of a block */
    uint32_t blocks;          /* in a run */
    uint16_t words;           /* bitmap words in use */
    uint16_t magazine_blocks; /* most that a magazine may hold */
    uint8_t run_slabs;
};

/* Offsets in a run are below 2^21 and blocks below 2^16 + 1 bytes: with 40 bits the product stays
 * under 2^59 and the quotient is exact. */
#define RECIPROCAL_SHIFT 40

extern INTERNAL struct size_class size_classes[SIZE_CLASSES_MAX];
/* Class offset (class * CLASS_SCALE) for each size up to TINY_MAX_BYTES. */
extern INTERNAL uint16_t tiny_class_offsets[TINY_MAX_BYTES + 1];

/* Once, before any other use. `magazine_bytes` bounds what one magazine may hold. */
void size_class_init(size_t magazine_bytes);

/* 128 < size <= MID_MAX_BYTES. */
static inline unsigned size_class_by_shifts(size_t size) {
    unsigned top = bit_highest(size - 1);
    return (top - 7) * 8 + (unsigned)((size - 1) >> (top - 3)) + 1;
}

static inline unsigned size_class_of(size_t size) { /* size <= MID_MAX_BYTES */
    return size <= TINY_MAX_BYTES ? tiny_class_offsets[size] / CLASS_SCALE : size_class_by_shifts(size);
}

/* The smallest class of at least `size` whose blocks all lie on multiples of `alignment` (a power of
 * two up to SLAB_BYTES; size likewise). */
unsigned size_class_aligned(size_t size, size_t alignment);

static inline uint64_t size_class_word_mask(const struct size_class *c, unsigned word) {
    return word + 1u == c->words ? c->last_word : ~(uint64_t)0;
}

#endif
