/* Memory that is filled for the first time: blocks that are allocated, written and kept. */
#include "bench.h"
#include "resident.h"

static uint64_t blocks = 1000000, min = 16, max = 16;

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, BENCH_SIZES_ALIKE),
    {.name = "blocks",
     .kind = BENCH_COUNT,
     .value = &blocks,
     .least = 1,
     .most = 1000000000,
     .help = "blocks to allocate"},
};

static const struct bench_workload workload = {
    .name = "fill",
    .stands_for =
        "A program that loads its data, or runs for a moment and leaves it to the kernel to take all back:\n"
        "what the first block in each place costs, page faults above all.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    bench_require_range(min, max);
    struct bench_random random = bench_random_stream(0);
    void **table = resident_table(blocks, sizeof *table);
    uint64_t data_bytes = 0;

    uint64_t faults_at_start = minor_faults();
    double begun = bench_now();
    for (size_t i = 0; i < blocks; i++) {
        size_t size = bench_random_between(&random, min, max);
        table[i] = bench_malloc(size);
        bench_touch_all(table[i], size);
        data_bytes += size;
    }
    double seconds = bench_now() - begun;

    const struct bench_figure figures[] = {
        {"data_bytes", (double)data_bytes},
        {"minor_faults", (double)(minor_faults() - faults_at_start)},
        {"rss_bytes", (double)resident_bytes()},
        {"peak_rss_bytes", (double)resident_peak_bytes()},
    };
    /* Freed for --verify's sake: what is measured is over. */
    for (size_t i = 0; i < blocks && bench.verify; i++) {
        bench_free(table[i]);
    }
    bench_report(blocks, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
