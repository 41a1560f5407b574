/* A server whose threads hand their blocks over to successors, and exit. */
#include "bench.h"

#include <semaphore.h>

static uint64_t min = 8;
static uint64_t max = 1000;
static uint64_t slots = 5000;
static uint64_t threads = 2;
static uint64_t generations = 20;
static uint64_t operations = 100000;

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, BENCH_SIZES_ALIKE),
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
     .help = "threads at a time"},
    {.name = "generations",
     .kind = BENCH_COUNT,
     .value = &generations,
     .least = 1,
     .most = 1 << 20,
     .help = "threads that follow each other, one handing its blocks to the next"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each thread replaces before it exits"},
};

static const struct bench_workload larson = {
    .name = "larson",
    .stands_for =
        "A server with a pool of worker threads. Each request frees what an earlier one left and takes new\n"
        "blocks; after a while a worker exits and a successor goes on with its live blocks, so that many "
        "blocks\n"
        "are freed by a thread that did not allocate them, often after the one that did has gone.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* What is handed over from thread to thread. */
struct chain {
    void **blocks;
    struct bench_random random;
    uint64_t generation;
    pthread_t predecessor;
    bool has_predecessor;
    sem_t last_has_run;
};

static void replace_blocks(struct chain *chain) {
    for (uint64_t i = 0; i < operations; i++) {
        void **slot = &chain->blocks[bench_random_below(&chain->random, slots)];
        bench_free(*slot);
        *slot = bench_malloc(bench_random_between(&chain->random, min, max));
    }
}

static void *generation_main(void *argument) {
    struct chain *chain = argument;
    /* Waits until the thread before has exited: whether its exit overlaps with the start of this one would
     * otherwise be a matter of luck. */
    if (chain->has_predecessor) {
        bench_thread_join(chain->predecessor);
    }
    replace_blocks(chain);
    chain->predecessor = pthread_self();
    chain->has_predecessor = true;
    if (++chain->generation == generations) {
        sem_post(&chain->last_has_run);
    } else {
        bench_thread_start(generation_main, chain);
    }
    return NULL;
}

/* The worker only makes the first blocks and the first thread. */
static void work(struct bench_worker *worker, void *unused) {
    (void)unused;
    struct chain *chain = bench_table(1, sizeof *chain);
    chain->blocks = bench_table(slots, sizeof *chain->blocks);
    chain->random = worker->random;
    sem_init(&chain->last_has_run, 0, 0);
    for (size_t i = 0; i < slots; i++) {
        chain->blocks[i] = bench_malloc(bench_random_between(&chain->random, min, max));
    }

    bench_begin(worker);
    bench_thread_start(generation_main, chain);
    while (sem_wait(&chain->last_has_run) != 0) {
        /* interrupted by a signal */
    }
    bench_thread_join(chain->predecessor);
    bench_end(worker);

    for (size_t i = 0; i < slots; i++) {
        bench_free(chain->blocks[i]);
    }
}

int main(int argc, char **argv) {
    bench_start(&larson, argc, argv);
    bench_require_range(min, max);
    double seconds = bench_run((unsigned)threads, work, NULL);
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"threads_started", (double)(threads * generations)},
        {"live_blocks", (double)(threads * slots)},
    };
    bench_report(threads * generations * operations, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
