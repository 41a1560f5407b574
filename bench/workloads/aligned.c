/* Aligned blocks: cache lines of their own, rows for vector instructions, and pages. */
#include "replace.h"

static uint64_t slots = 1000, operations = 1000000, threads = 1;

static const struct bench_option options[] = {
    {.name = "slots",
     .kind = BENCH_COUNT,
     .value = &slots,
     .least = 1,
     .most = 1 << 24,
     .help = "live blocks of each thread"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, which share nothing"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each thread replaces, whichever"},
};

static const struct bench_workload workload = {
    .name = "aligned",
    .stands_for =
        "Objects that threads must not share a cache line with (half of the blocks), rows of numbers for\n"
        "vector instructions (three in eight), and buffers that devices and the kernel want whole sectors\n"
        "or pages for (one in eight): by aligned_alloc and posix_memalign, of all sizes, in no order.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* Blocks of one use: their alignment is one of two powers of two, and small ones are the most. */
struct use {
    size_t alignments[2];
    size_t least;
    size_t most;
    bool posix; /* by posix_memalign */
};

static const struct use lines = {{64, 128}, 32, BENCH_KIB, false};
static const struct use rows = {{32, 64}, 256, 64 * BENCH_KIB, true};
static const struct use pages = {{512, 4096}, 4 * BENCH_KIB, 64 * BENCH_KIB, true};

static const struct use *const uses[] = {&lines, &lines, &lines, &lines, &rows, &rows, &rows, &pages};

static void *aligned_block(const struct use *use, size_t alignment, size_t size) {
    void *block = NULL;
    if (use->posix) {
        if (posix_memalign(&block, alignment, size) != 0) {
            block = NULL;
        }
    } else {
        block = aligned_alloc(alignment, size);
    }
    if (block == NULL) {
        bench_out_of_memory(size);
    }
    if (((uintptr_t)block & (alignment - 1)) != 0) {
        bench_fail("misaligned block: %p of %zu bytes must be aligned to %zu", block, size, alignment);
    }
    return block;
}

struct block {
    unsigned char *bytes;
    size_t size;
};

/* What a program that writes and reads rows does to them is left out: a byte of each page, and the last. */
static void put(void *item, struct bench_random *random) {
    struct block *block = item;
    const struct use *use = uses[bench_random_below(random, BENCH_COUNT_OF(uses))];
    size_t alignment = use->alignments[bench_random_below(random, 2)];
    size_t asked = bench_random_scaled(random, use->least, use->most);
    size_t size = (asked + alignment - 1) & ~(alignment - 1); /* as C11 has it for aligned_alloc */
    *block = (struct block){aligned_block(use, alignment, size), size};
    if (bench.verify) {
        bench_fill(block->bytes, size);
    } else {
        bench_touch_pages(block->bytes, size);
        block->bytes[size - 1] = 1;
    }
}

static void drop(const void *item) {
    const struct block *block = item;
    if (!bench.verify && (block->bytes[0] != 1 || block->bytes[block->size - 1] != 1)) {
        bench_fail("damaged block: %p of %zu bytes: its first or last byte is not 1", (void *)block->bytes,
                   block->size);
    }
    bench_free(block->bytes);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    const struct replacement replacement = {sizeof(struct block), put, drop, slots, operations, threads};
    replace_and_report(&replacement);
    return 0;
}
