#include "slab/size_class.h"

struct size_class size_classes[SIZE_CLASSES_MAX];
uint16_t tiny_class_offsets[TINY_MAX_BYTES + 1];

/* A run must hold a few blocks, or each would need a slab of its own; more would keep a run from
 * becoming empty. */
#define RUN_BLOCKS_MIN 4
/* The tail of a run may be this part of it. */
#define RUN_WASTE_PART 64

#define MAGAZINE_BLOCKS_MAX 512
#define MAGAZINE_BLOCKS_MIN 4
#define TINY_MAGAZINE_BYTES ((size_t)64 << 10)

static size_t class_bytes(unsigned c) {
    if (c == 0) {
        return 8;
    }
    if (c <= 8) {
        return 16 * (size_t)c;
    }
    unsigned doubling = (c - 9) / 8;
    unsigned step = (c - 9) % 8 + 1;
    return ((size_t)128 << doubling) + step * ((size_t)16 << doubling);
}

static unsigned choose_run(size_t bytes) {
    for (unsigned slabs = 1; slabs < SLABS_PER_SUPERSLAB; slabs++) {
        size_t run = slabs * SLAB_BYTES;
        if (run / bytes >= RUN_BLOCKS_MIN && run % bytes <= run / RUN_WASTE_PART) {
            return slabs;
        }
    }
    return SLABS_PER_SUPERSLAB;
}

void size_class_init(size_t magazine_bytes) {
    size_t size = 0;
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        struct size_class *s = &size_classes[c];
        size_t bytes = class_bytes(c);
        unsigned slabs = choose_run(bytes);
        size_t blocks = slabs * SLAB_BYTES / bytes;
        s->bytes = (uint32_t)bytes;
        s->reciprocal = ((uint64_t)1 << RECIPROCAL_SHIFT) / bytes + 1;
        s->blocks = (uint32_t)blocks;
        s->words = (uint16_t)((blocks + 63) / 64);
        s->last_word = bits_below((unsigned)((blocks - 1) % 64 + 1));
        s->run_slabs = (uint8_t)slabs;
        size_t held = c < TINY_CLASSES ? min_size(magazine_bytes, TINY_MAGAZINE_BYTES) : magazine_bytes;
        s->magazine_blocks =
            (uint16_t)max_size(min_size(held / bytes, MAGAZINE_BLOCKS_MAX), MAGAZINE_BLOCKS_MIN);
        for (; size <= bytes && size <= TINY_MAX_BYTES; size++) {
            tiny_class_offsets[size] = (uint16_t)(c * CLASS_SCALE);
        }
    }
}

unsigned size_class_aligned(size_t size, size_t alignment) {
    unsigned c = size_class_of(max_size(size, alignment));
    /* Each doubling has a power of two, so this ends within eight steps. */
    while (size_classes[c].bytes % alignment != 0) {
        c++;
    }
    return c;
}
