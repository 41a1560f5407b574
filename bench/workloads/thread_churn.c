/* Short-lived threads that allocate, and leave some of their blocks to others. */
#include "bench.h"

static uint64_t size = 64;
static uint64_t blocks = 500;
static uint64_t left_percent = 20;
static uint64_t threads = 2;
static uint64_t generations = 1000;

static const struct bench_option options[] = {
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_MIB,
     .help = "greatest size of a block; the others are 1/2, 1/4 and 1/8 of it"},
    {.name = "blocks",
     .kind = BENCH_COUNT,
     .value = &blocks,
     .least = 1,
     .most = 1 << 24,
     .help = "blocks that each thread allocates"},
    {.name = "left",
     .kind = BENCH_COUNT,
     .value = &left_percent,
     .least = 0,
     .most = 100,
     .help = "percent of them that are freed by the thread's creator, after it has exited"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads that start the short-lived ones, one after the other"},
    {.name = "generations",
     .kind = BENCH_COUNT,
     .value = &generations,
     .least = 1,
     .most = 1ull << 32,
     .help = "short-lived threads that each of them starts"},
};

static const struct bench_workload thread_churn = {
    .name = "thread_churn",
    .stands_for =
        "A program that starts a thread for each connection or task: the thread lives for some hundred\n"
        "allocations and leaves its result to the thread that started it. What it costs an allocator to set "
        "up\n"
        "a thread, and to take back what an exited one held.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static size_t left_blocks(void) {
    return blocks * left_percent / 100;
}

static void *short_life(void *argument) {
    void **table = argument;
    for (size_t i = 0; i < blocks; i++) {
        size_t block_size = size >> (i % 4);
        table[i] = bench_malloc(block_size < BENCH_LEAST_BLOCK ? BENCH_LEAST_BLOCK : block_size);
    }
    for (size_t i = left_blocks(); i < blocks; i++) {
        bench_free(table[i]);
    }
    return NULL;
}

static void work(struct bench_worker *worker, void *unused) {
    (void)unused;
    void **table = bench_table(blocks, sizeof *table);
    bench_begin(worker);
    for (uint64_t i = 0; i < generations; i++) {
        bench_thread_join(bench_thread_start(short_life, table));
        for (size_t left = 0; left < left_blocks(); left++) {
            bench_free(table[left]);
        }
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&thread_churn, argc, argv);
    double seconds = bench_run((unsigned)threads, work, NULL);
    struct bench_figure figures[] = {{"threads_started", (double)(threads * generations)}};
    bench_report(threads * generations * blocks, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
