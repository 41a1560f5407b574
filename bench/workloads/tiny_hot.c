/* Blocks of one size, taken and given back in a tight loop, in five orders. */
#include "bench.h"

enum pattern { PAIR, LIFO, FIFO, RANDOM, INTERLEAVED };

static uint64_t pattern = PAIR;
static uint64_t size = 64;
static uint64_t live = 1000;
static uint64_t operations = 10000000;

static const char *const pattern_names[] = {"pair", "lifo", "fifo", "random", "interleaved", NULL};

static const struct bench_option options[] = {
    {.name = "pattern",
     .kind = BENCH_CHOICE,
     .value = &pattern,
     .choices = pattern_names,
     .help = "the order in which the blocks of a round are freed"},
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_MIB,
     .help = "size of each block"},
    {.name = "live",
     .kind = BENCH_COUNT,
     .value = &live,
     .least = 1,
     .most = 1 << 24,
     .help = "blocks in a round; pair has one"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks to allocate and free, up to whole rounds"},
};

static const struct bench_workload tiny_hot = {
    .name = "tiny_hot",
    .stands_for =
        "The inner loop of a program that makes and drops many small objects of one kind: the bare cost of\n"
        "malloc and free, with everything in the cache. Freed at once (pair), newest first (lifo), oldest\n"
        "first (fifo), in random order, or every second one and then the others (interleaved).",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* The order of frees: entry i says which block of the round is freed as the i-th. */
static uint32_t *order_of_frees(struct bench_random *random) {
    uint32_t *order = bench_table(live, sizeof *order);
    for (size_t i = 0; i < live; i++) {
        order[i] = (uint32_t)(pattern == LIFO ? live - 1 - i : i);
    }
    if (pattern == INTERLEAVED) {
        size_t next = 0;
        for (uint32_t parity = 0; parity < 2; parity++) {
            for (uint32_t block = parity; block < live; block += 2) {
                order[next++] = block;
            }
        }
    }
    for (size_t i = live; pattern == RANDOM && i > 1; i--) {
        size_t other = bench_random_below(random, i);
        uint32_t swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
    return order;
}

static void run_pairs(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++) {
        bench_free(bench_malloc(size));
    }
}

static void run_rounds(uint64_t rounds, void **blocks, const uint32_t *order) {
    for (uint64_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < live; i++) {
            blocks[i] = bench_malloc(size);
        }
        for (size_t i = 0; i < live; i++) {
            bench_free(blocks[order[i]]);
        }
    }
}

static uint64_t rounds(void) {
    return (operations + live - 1) / live;
}

static void work(struct bench_worker *worker, void *unused) {
    (void)unused;
    void **blocks = bench_table(live, sizeof *blocks);
    const uint32_t *order = order_of_frees(&worker->random);
    run_rounds(1, blocks, order);
    bench_begin(worker);
    if (pattern == PAIR) {
        run_pairs(operations);
    } else {
        run_rounds(rounds(), blocks, order);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&tiny_hot, argc, argv);
    if (pattern == PAIR) {
        live = 1;
    }
    double seconds = bench_run(1, work, NULL);
    struct bench_figure figures[] = {{"size_bytes", (double)size}, {"live_blocks", (double)live}};
    bench_report(rounds() * live, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
