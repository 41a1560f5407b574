#include "slab/size_class.h"

#include "os/os.h"

struct size_class_use size_class_uses[EXACT_CLASSES];
/* What size_class_grow remembers of a spaced class of the mid lane. */
static struct growth {
    _Atomic uint32_t largest_before; /* request of the window before; relaxed everywhere: as `largest` */
    _Atomic uint32_t slabs;          /* of the class's runs so far; relaxed everywhere: a count */
    _Atomic bool defined; /* somebody writes the exact class, or has; relaxed: exact_bytes publishes it */
} growths[EXACT_CLASSES];

/* A run must hold a few blocks, or each would need a slab of its own; more would keep a run from
 * becoming empty. */
#define RUN_BLOCKS_MIN 4
/* The tail of a run may be this part of it in address space, and what of it shares a page with the last
 * block, and so is resident, this part. */
#define RUN_TAIL_PART 16
#define RUN_WASTE_PART 128

/* A window: a spaced class is looked at each time that it has got so many slabs more, WINDOWS times at
 * most. */
#define WINDOW_SLABS 8
#define WINDOWS 8
/* An exact class must save at least this part of each block. */
#define EXACT_SAVES_PART 128

/* Most and fewest blocks that a magazine may hold: with fewer than 32, programs that exchange buffers of
 * several sizes often run empty of one and full of another. Of blocks above MAGAZINE_LARGE_BYTES it may be
 * fewer. */
#define MAGAZINE_BLOCKS_MAX 1024
#define MAGAZINE_BLOCKS_MIN 32
#define MAGAZINE_LARGE_BYTES ((size_t)32 << 10)
#define MAGAZINE_LARGE_BLOCKS_MIN 4

#define RUN_BYTES(slabs) ((slabs)*SLAB_BYTES)

#define MAGAZINE_BLOCKS_LEAST(bytes)                                                                         \
    ((bytes) <= MAGAZINE_LARGE_BYTES ? MAGAZINE_BLOCKS_MIN : MAGAZINE_LARGE_BLOCKS_MIN)
#define MAGAZINE_BLOCKS(bytes, magazine_bytes)                                                               \
    ((magazine_bytes) / (bytes) > MAGAZINE_BLOCKS_MAX            ? MAGAZINE_BLOCKS_MAX                       \
     : (magazine_bytes) / (bytes) < MAGAZINE_BLOCKS_LEAST(bytes) ? MAGAZINE_BLOCKS_LEAST(bytes)              \
                                                                 : (magazine_bytes) / (bytes))

#define CLASS_IN_RUN(bytes_, run_slabs_, magazine_bytes)                                                     \
    {                                                                                                        \
        .reciprocal = ((uint64_t)1 << RECIPROCAL_SHIFT) / (bytes_) + 1,                                      \
        .last_word = ~(uint64_t)0 >> (63 - (RUN_BYTES(run_slabs_) / (bytes_)-1) % 64),                       \
        .bytes = (uint32_t)(bytes_), .blocks = (uint32_t)(RUN_BYTES(run_slabs_) / (bytes_)),                 \
        .words = (uint16_t)((RUN_BYTES(run_slabs_) / (bytes_) + 63) / 64),                                   \
        .magazine_blocks = (uint16_t)MAGAZINE_BLOCKS(bytes_, magazine_bytes),                                \
        .run_slabs = (uint8_t)(run_slabs_),                                                                  \
    }

/* The spaced classes are constants of the file, so that no process pays for working them out. Of each of the
 * mid lane, the run is what choose_run says. */
#define CLASS(bytes, run_slabs) CLASS_IN_RUN((size_t)(bytes), run_slabs, SIZE_CLASS_MAGAZINE_BYTES)
#define TINY(bytes) CLASS(bytes, 1)
/* The eight classes above `from`, a power of two, up to the next one, and how many slabs the runs of each
 * have. */
#define CLASSES(from, slabs1, slabs2, slabs3, slabs4, slabs5, slabs6, slabs7, slabs8)                        \
    CLASS((from) / 8 * 9, slabs1), CLASS((from) / 8 * 10, slabs2), CLASS((from) / 8 * 11, slabs3),           \
        CLASS((from) / 8 * 12, slabs4), CLASS((from) / 8 * 13, slabs5), CLASS((from) / 8 * 14, slabs6),      \
        CLASS((from) / 8 * 15, slabs7), CLASS((from)*2, slabs8)

struct size_class size_classes[SIZE_CLASSES] = {
    TINY(8),
    TINY(16),
    TINY(32),
    TINY(48),
    TINY(64),
    TINY(80),
    TINY(96),
    TINY(112),
    TINY(128),
    CLASSES(128, 1, 1, 1, 1, 1, 1, 1, 1),
    CLASSES(256, 1, 1, 1, 1, 1, 1, 1, 1),
    CLASSES(512, 1, 1, 1, 1, 1, 1, 1, 1),
    CLASSES(1024, 2, 1, 2, 2, 3, 2, 1, 1),
    CLASSES(2048, 3, 2, 4, 3, 3, 4, 1, 1),
    CLASSES(4096, 4, 1, 3, 1, 2, 4, 1, 1),
    CLASSES(8192, 4, 1, 3, 1, 4, 4, 1, 1),
    CLASSES(16384, 3, 2, 4, 2, 5, 4, 2, 2),
    CLASSES(32768, 3, 4, 5, 3, 5, 7, 4, 4),
};

#define OFFSET(c, from, to) [(from)...(to)] = ((c)*CLASS_SCALE)
/* The sizes of the eight classes from `c` on, above `from`, a power of two, up to the next one. */
#define OFFSETS(c, from)                                                                                     \
    OFFSET(c, (from) + 1, (from) / 8 * 9), OFFSET((c) + 1, (from) / 8 * 9 + 1, (from) / 8 * 10),             \
        OFFSET((c) + 2, (from) / 8 * 10 + 1, (from) / 8 * 11),                                               \
        OFFSET((c) + 3, (from) / 8 * 11 + 1, (from) / 8 * 12),                                               \
        OFFSET((c) + 4, (from) / 8 * 12 + 1, (from) / 8 * 13),                                               \
        OFFSET((c) + 5, (from) / 8 * 13 + 1, (from) / 8 * 14),                                               \
        OFFSET((c) + 6, (from) / 8 * 14 + 1, (from) / 8 * 15),                                               \
        OFFSET((c) + 7, (from) / 8 * 15 + 1, (from)*2)

/* A load from an address that agrees in its last twelve bits with that of a store just before waits for it.
 * malloc stores to a magazine and next loads from this table: heaps begin with the magazines of the tiny
 * lane, on a page, and the table comes where on its page no heap has one. Behind a name of its own, because
 * an address with a displacement costs a cycle. */
#define MAGAZINES_PAGE_END 0x7c0
#define TEXT_OF_ARGUMENT(argument) #argument
#define TEXT_OF(macro) TEXT_OF_ARGUMENT(macro)
_Static_assert(TINY_CLASSES *CLASS_SCALE <= MAGAZINES_PAGE_END &&
                   MAGAZINES_PAGE_END + sizeof(uint16_t) * (TINY_MAX_BYTES + 1) <= OS_PAGE_BYTES,
               "the table shares no page offset with the magazines of the tiny lane");
static const struct {
    _Alignas(OS_PAGE_BYTES) unsigned char before[MAGAZINES_PAGE_END];
    uint16_t offsets[TINY_MAX_BYTES + 1];
} tiny_table __attribute__((used, section(".rodata_tables"))) = {.offsets = {
                                                                     OFFSET(0, 0, 8),
                                                                     OFFSET(1, 9, 16),
                                                                     OFFSET(2, 17, 32),
                                                                     OFFSET(3, 33, 48),
                                                                     OFFSET(4, 49, 64),
                                                                     OFFSET(5, 65, 80),
                                                                     OFFSET(6, 81, 96),
                                                                     OFFSET(7, 97, 112),
                                                                     OFFSET(8, 113, 128),
                                                                     OFFSETS(9, 128),
                                                                     OFFSETS(17, 256),
                                                                     OFFSETS(25, 512),
                                                                 }};
__asm__(".globl tiny_class_offsets\n\t.hidden tiny_class_offsets\n\t"
        ".set tiny_class_offsets, tiny_table + " TEXT_OF(MAGAZINES_PAGE_END));

static bool run_is_good(size_t bytes, unsigned slabs) {
    size_t tail = RUN_BYTES(slabs) % bytes;
    return RUN_BYTES(slabs) / bytes >= RUN_BLOCKS_MIN && tail <= RUN_BYTES(slabs) / RUN_TAIL_PART &&
           tail % OS_PAGE_BYTES <= RUN_BYTES(slabs) / RUN_WASTE_PART;
}

/* The shortest good run for a class of the mid lane. */
static unsigned choose_run(size_t bytes) {
    unsigned slabs = 1;
    while (slabs < SLABS_PER_SUPERSLAB && !run_is_good(bytes, slabs)) {
        slabs++;
    }
    return slabs;
}

void size_class_init(size_t magazine_bytes) {
    for (unsigned c = 0; c < SPACED_CLASSES && magazine_bytes != SIZE_CLASS_MAGAZINE_BYTES; c++) {
        size_classes[c].magazine_blocks = (uint16_t)MAGAZINE_BLOCKS(size_classes[c].bytes, magazine_bytes);
    }
}

void size_class_grow(unsigned size_class) {
    if (size_class < TINY_CLASSES || size_class >= SPACED_CLASSES) {
        return;
    }
    const struct size_class *s = &size_classes[size_class];
    struct size_class_use *use = &size_class_uses[size_class - TINY_CLASSES];
    struct growth *growth = &growths[size_class - TINY_CLASSES];
    uint32_t had = atomic_fetch_add_explicit(&growth->slabs, s->run_slabs, memory_order_relaxed);
    uint32_t window = (had + s->run_slabs) / WINDOW_SLABS;
    if (had / WINDOW_SLABS == window || window > WINDOWS) {
        return; /* of the threads that come here at once, one goes on for each window */
    }
    uint32_t largest = atomic_exchange_explicit(&use->largest, 0, memory_order_relaxed);
    /* Of sizes spread evenly, the largest is another one in each window, and not worth a class. */
    bool again = largest == atomic_exchange_explicit(&growth->largest_before, largest, memory_order_relaxed);
    size_t exact = round_up(largest, BLOCK_ALIGNMENT_BYTES);
    /* No lock, which a fork might leave taken: who comes first defines the class, for good. */
    if (again && largest != 0 && s->bytes - exact >= s->bytes / EXACT_SAVES_PART &&
        !atomic_exchange_explicit(&growth->defined, true, memory_order_relaxed)) {
        struct size_class c = CLASS_IN_RUN(exact, choose_run(exact), SIZE_CLASS_MAGAZINE_BYTES);
        c.magazine_blocks = s->magazine_blocks;
        size_classes[size_class + EXACT_CLASSES] = c;
        /* release pairs with the acquire in size_class_for_mid and size_class_exists */
        atomic_store_explicit(&use->exact_bytes, (uint32_t)exact, memory_order_release);
    }
}

unsigned size_class_count_exact(void) {
    unsigned n = 0;
    for (unsigned c = 0; c < EXACT_CLASSES; c++) {
        /* relaxed: a statistic */
        n += atomic_load_explicit(&size_class_uses[c].exact_bytes, memory_order_relaxed) != 0;
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
