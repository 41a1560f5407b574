#include "cache_line.h"

static uint64_t size = 8;
static uint64_t threads = 2;
static uint64_t writes = 1000;
static uint64_t operations = 100000;

static const struct bench_option options[] = {
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_KIB,
     .help = "size of each block"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads"},
    {.name = "writes",
     .kind = BENCH_COUNT,
     .value = &writes,
     .least = 1,
     .most = 1 << 30,
     .help = "times that a block is read and written"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each thread allocates, writes and frees"},
};

struct run {
    const struct cache_line_shape *shape;
    void **given; /* one block for each thread */
};

/* Counts in the block's last word, which is the first one of a small block: with --verify, what it held is
 * put back at the end. */
static void write_often(void *block) {
    volatile uint64_t *word = (uint64_t *)block + (size / sizeof *word - 1);
    uint64_t before = *word;
    for (uint64_t i = 0; i < writes; i++) {
        *word = *word + 1;
    }
    *word = *word - writes;
    if (*word != before) {
        bench_fail("damaged block: %p of %zu bytes was written by another thread", block, (size_t)size);
    }
}

static void work(struct bench_worker *worker, void *context) {
    const struct run *run = context;
    bench_begin(worker);
    if (run->shape->given_by_main) {
        bench_free(run->given[worker->index]);
    }
    for (uint64_t i = 0; i < operations; i++) {
        void *block = bench_malloc(size);
        write_often(block);
        bench_free(block);
    }
    bench_end(worker);
}

int cache_line_main(const struct cache_line_shape *shape, int argc, char **argv) {
    struct bench_workload workload = {.name = shape->name,
                                      .stands_for = shape->stands_for,
                                      .options = options,
                                      .option_count = BENCH_COUNT_OF(options)};
    bench_start(&workload, argc, argv);
    struct run run = {.shape = shape, .given = bench_table(threads, sizeof *run.given)};
    for (size_t i = 0; shape->given_by_main && i < threads; i++) {
        run.given[i] = bench_malloc(size);
    }
    double seconds = bench_run((unsigned)threads, work, &run);
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"size_bytes", (double)size},
        {"writes_per_block", (double)writes},
    };
    bench_report(operations * threads, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
