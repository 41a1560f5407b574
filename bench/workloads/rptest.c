/* Random sizes, with blocks that other threads free. */
#include "batch.h"

static uint64_t min = 16;
static uint64_t max = 16000;
static uint64_t slots = 1000;
static uint64_t replaced = 100;
static uint64_t cross = 2;
static uint64_t threads = 2;
static uint64_t rounds = 5000;

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, "greatest size, which is the rarest: the chance falls linearly"),
    {.name = "slots",
     .kind = BENCH_COUNT,
     .value = &slots,
     .least = 1,
     .most = 1 << 24,
     .help = "live blocks of each thread"},
    {.name = "replaced",
     .kind = BENCH_COUNT,
     .value = &replaced,
     .least = 1,
     .most = 1 << 20,
     .help = "blocks that a thread replaces in each round"},
    {.name = "cross",
     .kind = BENCH_COUNT,
     .value = &cross,
     .least = 0,
     .most = 1 << 20,
     .help = "every how many rounds those replaced go to the next thread, which frees them; 0: never"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, in a ring"},
    {.name = "rounds",
     .kind = BENCH_COUNT,
     .value = &rounds,
     .least = 1,
     .most = 1ull << 32,
     .help = "rounds of each thread"},
};

static const struct bench_workload rptest = {
    .name = "rptest",
    .stands_for =
        "Threads that work on data of many sizes, most of them small, and pass part of it on to each other:\n"
        "a game engine, a server with stages. Own frees and frees for other threads alternate.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* Most batches that may wait for a thread; then the thread before it in the ring waits. */
#define MOST_WAITING 64

/* The smaller of two random sizes, so that small ones are more likely. */
static size_t random_size(struct bench_random *random) {
    size_t one = bench_random_between(random, min, max), other = bench_random_between(random, min, max);
    return one < other ? one : other;
}

static void free_own(void **blocks, struct bench_random *random) {
    for (size_t i = 0; i < replaced; i++) {
        void **slot = &blocks[bench_random_below(random, slots)];
        bench_free(*slot);
        *slot = bench_malloc(random_size(random));
    }
}

/* The ring cannot block itself: a thread blocks here only if the next one has not looked into its queue since
 * this one last did into its own, and that cannot be so all the way round. */
static void pass_on(void **blocks, struct bench_random *random, struct batch_queue *to) {
    struct batch *batch = batch_new(replaced);
    for (size_t i = 0; i < replaced; i++) {
        void **slot = &blocks[bench_random_below(random, slots)];
        batch->blocks[batch->count++] = *slot;
        *slot = bench_malloc(random_size(random));
    }
    batch_queue_put(to, batch);
}

static void run_rounds(void **blocks, struct bench_random *random, struct batch_queue *own,
                       struct batch_queue *next) {
    struct batch *batch = NULL;
    for (uint64_t round = 1; round <= rounds; round++) {
        if (cross != 0 && round % cross == 0) {
            pass_on(blocks, random, next);
        } else {
            free_own(blocks, random);
        }
        while ((batch = batch_queue_poll(own)) != NULL) {
            batch_free(batch);
        }
    }
    batch_queue_close(next);
    while ((batch = batch_queue_take(own)) != NULL) {
        batch_free(batch);
    }
}

static void work(struct bench_worker *worker, void *context) {
    struct batch_queue *queues = context;
    void **blocks = bench_table(slots, sizeof *blocks);
    for (size_t i = 0; i < slots; i++) {
        blocks[i] = bench_malloc(random_size(&worker->random));
    }

    bench_begin(worker);
    run_rounds(blocks, &worker->random, &queues[worker->index], &queues[(worker->index + 1) % threads]);
    bench_end(worker);

    for (size_t i = 0; i < slots; i++) {
        bench_free(blocks[i]);
    }
}

int main(int argc, char **argv) {
    bench_start(&rptest, argc, argv);
    bench_require_range(min, max);
    struct batch_queue *queues = bench_table(threads, sizeof *queues);
    for (size_t i = 0; i < threads; i++) {
        batch_queue_init(&queues[i], MOST_WAITING);
    }
    double seconds = bench_run((unsigned)threads, work, queues);
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"live_blocks", (double)(threads * slots)},
    };
    bench_report(threads * rounds * replaced, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
