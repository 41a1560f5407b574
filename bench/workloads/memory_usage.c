/* Resident memory against data: many blocks of one size, every byte of them in use.
 *
 * The table of pointers is mapped outside the heap; `rss_bytes` and `peak_rss_bytes` leave it out. All else
 * that the process has resident is in them, so that what remains over the same program on libc with --blocks
 * 0 and over the data is the allocator's.
 */
#include "bench.h"
#include "resident.h"

static uint64_t blocks = 1000000, size = 16;

static const struct bench_option options[] = {
    {.name = "blocks",
     .kind = BENCH_COUNT,
     .value = &blocks,
     .most = 1000000000,
     .help = "blocks to allocate; 0 gives what the process itself takes"},
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_GIB,
     .help = "bytes of each"},
};

static const struct bench_workload workload = {
    .name = "memory_usage",
    .stands_for = "A program that holds many small objects: what it pays for each beyond its bytes.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    void **table = blocks == 0 ? NULL : resident_table(blocks, sizeof *table);

    double begun = bench_now();
    for (size_t i = 0; i < blocks; i++) {
        table[i] = bench_malloc(size);
        bench_touch_all(table[i], size);
    }
    double seconds = bench_now() - begun;

    const struct bench_figure figures[] = {
        {"blocks", (double)blocks},
        {"block_bytes", (double)size},
        {"data_bytes", (double)(blocks * size)},
        {"rss_bytes", (double)resident_bytes()},
        {"anonymous_bytes", (double)resident_anonymous_bytes()},
        {"peak_rss_bytes", (double)resident_peak_bytes()},
    };
    /* Freed for --verify's sake: what is measured is over. */
    for (size_t i = 0; i < blocks && bench.verify; i++) {
        bench_free(table[i]);
    }
    /* Without blocks there is no operation to count, but the report needs one. */
    bench_report(blocks == 0 ? 1 : blocks, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
