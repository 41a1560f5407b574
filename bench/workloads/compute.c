/* Threads that compute, and allocate nothing. */
#include "bench.h"

static uint64_t memory = 0;
static uint64_t threads = 2;
static uint64_t operations = 20000000;

static const struct bench_option options[] = {
    {.name = "memory",
     .kind = BENCH_BYTES,
     .value = &memory,
     .most = 16 * BENCH_GIB,
     .help = "memory of each thread, of which each operation writes a word at random"},
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
     .help = "random numbers that each thread draws"},
};

static const struct bench_workload compute = {
    .name = "compute",
    .stands_for =
        "What the machine itself gives to several threads, which share nothing and allocate nothing. With\n"
        "--memory each writes memory of its own as well, which may be more than the caches hold. The\n"
        "allocator has no part in it. There are no blocks: --verify checks nothing.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* Some place that the compiler must believe to be read. */
static void use(uint64_t word) {
    __asm__ volatile("" : : "r"(word));
}

static void compute_only(struct bench_random random) {
    for (uint64_t i = 0; i < operations; i++) {
        use(bench_random_next(&random));
    }
}

static void compute_and_write(struct bench_random random, uint64_t *words, size_t count) {
    for (uint64_t i = 0; i < operations; i++) {
        words[bench_random_below(&random, count)] += i;
    }
}

static void work(struct bench_worker *worker, void *unused) {
    (void)unused;
    size_t count = memory / sizeof(uint64_t);
    uint64_t *words = count == 0 ? NULL : bench_table(count, sizeof *words);
    bench_begin(worker);
    if (words == NULL) {
        compute_only(worker->random);
    } else {
        compute_and_write(worker->random, words, count);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&compute, argc, argv);
    double seconds = bench_run((unsigned)threads, work, NULL);
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"memory_bytes", (double)(memory * threads)},
    };
    bench_report(operations * threads, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
