/* Page faults of a heap that grows, and of one that breathes: half of it freed and allocated anew, in turn.
 */
#include "bench.h"
#include "resident.h"

static uint64_t size = 256, heap = 64 * BENCH_MIB, breaths = 4;

static const struct bench_option options[] = {
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_GIB,
     .help = "bytes of each block"},
    {.name = "heap",
     .kind = BENCH_BYTES,
     .value = &heap,
     .least = 1,
     .most = 64 * BENCH_GIB,
     .help = "bytes of blocks to grow to"},
    {.name = "breaths",
     .kind = BENCH_COUNT,
     .value = &breaths,
     .most = 1000000,
     .help = "times that half of it is freed and allocated anew"},
};

static const struct bench_workload workload = {
    .name = "page_faults",
    .stands_for = "A program that loads its data, then has short peaks: the traps that it takes for them.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static void allocate(void **table, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        table[i] = bench_malloc(size);
        bench_touch_all(table[i], size);
    }
}

static void release(void **table, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        bench_free(table[i]);
    }
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    if (heap < size) {
        bench_bad_argument("--heap: it must hold at least one block of --size");
    }
    size_t count = heap / size;
    size_t lower_half = count / 2;
    size_t upper_half = count - lower_half;
    void **table = resident_table(count, sizeof *table);

    uint64_t faults_at_start = minor_faults();
    double begun = bench_now();
    allocate(table, 0, count);
    uint64_t faults_grown = minor_faults();
    for (uint64_t breath = 0; breath < breaths; breath++) {
        release(table, lower_half, count);
        allocate(table, lower_half, count);
    }
    double seconds = bench_now() - begun;
    uint64_t faults_at_end = minor_faults();
    release(table, 0, bench.verify ? count : 0);

    double grown_mib = (double)(count * size) / (double)BENCH_MIB;
    double breathed_mib = (double)(upper_half * size * breaths) / (double)BENCH_MIB;
    const struct bench_figure figures[] = {
        {"data_bytes", (double)(count * size)},
        {"minor_faults", (double)(faults_at_end - faults_at_start)},
        {"growth_faults_per_mib", (double)(faults_grown - faults_at_start) / grown_mib},
        {"breath_faults_per_mib", breaths == 0 ? 0.0 : (double)(faults_at_end - faults_grown) / breathed_mib},
        {"peak_rss_bytes", (double)resident_peak_bytes()},
    };
    bench_report(count + breaths * 2 * upper_half, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
