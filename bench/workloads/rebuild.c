/* A heap that is built and dropped again and again: all of it, in order or in none. */
#include "bench.h"
#include "resident.h"

enum order { BUILT, NONE };

static uint64_t order = BUILT;
static uint64_t min = 1000, max = 1000, heap = 64 * BENCH_MIB, rounds = 12;

static const char *const order_names[] = {"built", "none", NULL};

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, BENCH_SIZES_ALIKE),
    {.name = "heap",
     .kind = BENCH_BYTES,
     .value = &heap,
     .least = 1,
     .most = 64 * BENCH_GIB,
     .help = "bytes of blocks to build each time"},
    {.name = "rounds",
     .kind = BENCH_COUNT,
     .value = &rounds,
     .least = 1,
     .most = 1000000,
     .help = "times that it is built and dropped"},
    {.name = "order",
     .kind = BENCH_CHOICE,
     .value = &order,
     .choices = order_names,
     .help = "the order in which blocks are freed: that in which they were built, or none"},
};

static const struct bench_workload workload = {
    .name = "rebuild",
    .stands_for =
        "A program of one thread that has a heap for each of its tasks: a compiler's, a solver's, a\n"
        "batch's. All of it is dropped, and the next task builds as much.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static void swap(void **a, void **b) {
    void *swapped = *a;
    *a = *b;
    *b = swapped;
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    bench_require_range(min, max);
    if (heap < max) {
        bench_bad_argument("--heap: it must hold at least one block of --max");
    }
    size_t count = heap / ((min + max) / 2);
    void **table = resident_table(count, sizeof *table);
    struct bench_random random = bench_random_stream(0);

    uint64_t faults_at_start = minor_faults();
    double begun = bench_now();
    for (uint64_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            size_t size = bench_random_between(&random, min, max);
            table[i] = bench_malloc(size);
            bench_touch_all(table[i], size);
        }
        for (size_t i = count; order == NONE && i > 1; i--) {
            swap(&table[i - 1], &table[bench_random_below(&random, i)]);
        }
        for (size_t i = 0; i < count; i++) {
            bench_free(table[i]);
        }
    }
    double seconds = bench_now() - begun;

    const struct bench_figure figures[] = {
        {"minor_faults", (double)(minor_faults() - faults_at_start)},
        {"peak_rss_bytes", (double)resident_peak_bytes()},
        {"left_rss_bytes", (double)resident_bytes()},
    };
    bench_report(count * rounds, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
