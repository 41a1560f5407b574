#include "slab/size_class.h"

#include "os/os.h"

struct size_class size_classes[SIZE_CLASSES];
struct size_class_use size_class_uses[EXACT_CLASSES];
uint16_t tiny_class_offsets[TINY_MAX_BYTES + 1];

/* A run must hold a few blocks, or each would need a slab of its own; more would keep a run from
 * becoming empty. */
#define RUN_BLOCKS_MIN 4
/* The tail of a run may be this part of it in address space, and what of it shares a page with the last
 * block, and so is resident, this part. */
#define RUN_TAIL_PART 32
#define RUN_WASTE_PART 256

/* A spaced class is looked at each time it has got so many slabs, at most so often. */
#define WINDOW_SLABS 16
#define WINDOWS 4
/* What an exact class must save of each block. */
#define EXACT_SAVES_PART 128

#define MAGAZINE_BLOCKS_MAX 1024
#define MAGAZINE_BLOCKS_MIN 4

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
        size_t tail = run % bytes;
        if (run / bytes >= RUN_BLOCKS_MIN && tail <= run / RUN_TAIL_PART &&
            tail % OS_PAGE_BYTES <= run / RUN_WASTE_PART) {
            return slabs;
        }
    }
    return SLABS_PER_SUPERSLAB;
}

static void define(unsigned c, size_t bytes, size_t magazine_bytes) {
    struct size_class *s = &size_classes[c];
    unsigned slabs = c < TINY_CLASSES ? 1 : choose_run(bytes);
    size_t blocks = slabs * SLAB_BYTES / bytes;
    s->bytes = (uint32_t)bytes;
    s->reciprocal = ((uint64_t)1 << RECIPROCAL_SHIFT) / bytes + 1;
    s->blocks = (uint32_t)blocks;
    s->words = (uint16_t)((blocks + 63) / 64);
    s->last_word = bits_below((unsigned)((blocks - 1) % 64 + 1));
    s->run_slabs = (uint8_t)slabs;
    s->magazine_blocks =
        (uint16_t)max_size(min_size(magazine_bytes / bytes, MAGAZINE_BLOCKS_MAX), MAGAZINE_BLOCKS_MIN);
}

void size_class_init(size_t magazine_bytes) {
    size_t size = 0;
    for (unsigned c = 0; c < SPACED_CLASSES; c++) {
        size_t bytes = class_bytes(c);
        define(c, bytes, magazine_bytes);
        for (; size <= bytes && size <= TINY_MAX_BYTES; size++) {
            tiny_class_offsets[size] = (uint16_t)(c * CLASS_SCALE);
        }
    }
}

void size_class_grow(unsigned size_class) {
    if (size_class < TINY_CLASSES || size_class >= SPACED_CLASSES) {
        return;
    }
    const struct size_class *s = &size_classes[size_class];
    struct size_class_use *use = &size_class_uses[size_class - TINY_CLASSES];
    uint32_t had = atomic_fetch_add_explicit(&use->slabs, s->run_slabs, memory_order_relaxed);
    uint32_t window = (had + s->run_slabs) / WINDOW_SLABS;
    if (had / WINDOW_SLABS == window || window > WINDOWS) {
        return; /* so that of the threads that come here at once one goes on for each window */
    }
    uint32_t largest = atomic_exchange_explicit(&use->largest, 0, memory_order_relaxed);
    size_t exact = round_up(largest, BLOCK_ALIGNMENT_BYTES);
    /* No lock, which a fork might leave taken: who comes first defines the class, for good. */
    if (largest != 0 && s->bytes - exact >= s->bytes / EXACT_SAVES_PART &&
        !atomic_exchange_explicit(&use->defined, true, memory_order_relaxed)) {
        define(size_class + EXACT_CLASSES, exact, s->magazine_blocks * (size_t)s->bytes);
        atomic_store_explicit(&use->exact_bytes, (uint32_t)exact, memory_order_release);
    }
}

unsigned size_class_count_exact(void) {
    unsigned n = 0;
    for (unsigned c = 0; c < EXACT_CLASSES; c++) {
        n += atomic_load_explicit(&size_class_uses[c].exact_bytes, memory_order_relaxed) !=
             0; /* a statistic */
    }
    return n;
}

unsigned size_class_aligned(size_t size, size_t alignment) {
    unsigned c = size_class_of(max_size(size, alignment));
    /* Each doubling has a power of two, so this ends within eight steps. */
    while (size_classes[c].bytes % alignment != 0) {
        c++;
    }
    return c;
}
