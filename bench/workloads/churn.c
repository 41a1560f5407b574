#include "churn.h"

static uint64_t min, max, slots, operations, threads, touch;

static const char *const touch_names[] = {"word", "pages", "all", NULL};

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, BENCH_SIZES_ALIKE),
    {.name = "slots",
     .kind = BENCH_COUNT,
     .value = &slots,
     .least = 1,
     .most = 1 << 28,
     .help = "live blocks of each thread"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, which share nothing"},
    {.name = "touch",
     .kind = BENCH_CHOICE,
     .value = &touch,
     .choices = touch_names,
     .help = "what is written in a new block: its first word, a byte of each page, or all"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each thread replaces"},
};

static void *new_block(struct bench_random *random) {
    size_t size = bench_random_between(random, min, max);
    void *block = bench_malloc(size);
    if (touch == CHURN_TOUCH_PAGES) {
        bench_touch_pages(block, size);
    } else if (touch == CHURN_TOUCH_ALL) {
        bench_touch_all(block, size);
    }
    return block;
}

/* Filling the table is warm-up: thread 0's time for it is reported apart, as what fresh memory costs. */
static void work(struct bench_worker *worker, void *context) {
    double *fill_seconds = context;
    struct bench_random *random = &worker->random;
    void **blocks = bench_table(slots, sizeof *blocks);
    double fill_begun = bench_now();
    for (size_t i = 0; i < slots; i++) {
        blocks[i] = new_block(random);
    }
    if (worker->index == 0) {
        *fill_seconds = bench_now() - fill_begun;
    }

    bench_begin(worker);
    for (uint64_t i = 0; i < operations; i++) {
        void **slot = &blocks[bench_random_below(random, slots)];
        bench_free(*slot);
        *slot = new_block(random);
    }
    bench_end(worker);

    for (size_t i = 0; i < slots; i++) {
        bench_free(blocks[i]);
    }
}

int churn_main(const struct churn_shape *shape, int argc, char **argv) {
    min = shape->min;
    max = shape->max;
    slots = shape->slots;
    operations = shape->operations;
    threads = shape->threads;
    touch = shape->touch;
    struct bench_workload workload = {.name = shape->name,
                                      .stands_for = shape->stands_for,
                                      .options = options,
                                      .option_count = BENCH_COUNT_OF(options)};
    bench_start(&workload, argc, argv);
    bench_require_range(min, max);

    double fill_seconds = 0;
    double seconds = bench_run((unsigned)threads, work, &fill_seconds);
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"live_blocks", (double)(slots * threads)},
        {"live_bytes_expected", (double)(slots * threads) * (double)(min + max) / 2},
        {"fill_seconds", fill_seconds},
    };
    bench_report(operations * threads, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
