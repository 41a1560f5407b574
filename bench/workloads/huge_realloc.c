/* One array that grows by realloc to a GiB. */
#include "bench.h"

static uint64_t from = 64 * BENCH_KIB;
static uint64_t to = BENCH_GIB;
static uint64_t growth_percent = 50;
static uint64_t step = 0;
static uint64_t rounds = 1;

static const struct bench_option options[] = {
    {.name = "from",
     .kind = BENCH_BYTES,
     .value = &from,
     .least = BENCH_LEAST_BLOCK,
     .most = 64 * BENCH_GIB,
     .help = "size at the start"},
    {.name = "to",
     .kind = BENCH_BYTES,
     .value = &to,
     .least = BENCH_LEAST_BLOCK,
     .most = 64 * BENCH_GIB,
     .help = "size at which a round ends"},
    {.name = "growth",
     .kind = BENCH_COUNT,
     .value = &growth_percent,
     .least = 0,
     .most = 1000,
     .help = "percent by which each realloc grows the block"},
    {.name = "step",
     .kind = BENCH_BYTES,
     .value = &step,
     .least = 0,
     .most = BENCH_GIB,
     .help = "bytes by which each realloc grows the block, besides"},
    {.name = "rounds",
     .kind = BENCH_COUNT,
     .value = &rounds,
     .least = 1,
     .most = 1 << 20,
     .help = "times to grow a block and free it"},
};

static const struct bench_workload huge_realloc = {
    .name = "huge_realloc",
    .stands_for =
        "A growing array, log or document, from a vector that grows by half to a buffer that is extended by\n"
        "a fixed step. The new part is written each time, a byte of each page. Whether the allocator moves\n"
        "pages, copies bytes, or grows in place decides the time.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static size_t grown(size_t size) {
    size_t more = size + size * growth_percent / 100 + step;
    return more < to ? more : to;
}

/* Returns the calls of realloc. */
static uint64_t grow_once(void) {
    uint64_t calls = 0;
    size_t size = from;
    char *block = bench_malloc(size);
    bench_touch_pages(block, size);
    while (size < to) {
        size_t more = grown(size);
        block = bench_realloc(block, more);
        bench_touch_pages(block + size, more - size);
        size = more;
        calls++;
    }
    bench_free(block);
    return calls;
}

static void work(struct bench_worker *worker, void *context) {
    uint64_t *calls = context;
    bench_begin(worker);
    for (uint64_t round = 0; round < rounds; round++) {
        *calls += grow_once();
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&huge_realloc, argc, argv);
    if (from > to) {
        bench_bad_argument("--from %zu exceeds --to %zu: give the smaller one first", (size_t)from,
                           (size_t)to);
    }
    if (grown(from) == from && from < to) {
        bench_bad_argument("--growth and --step are too small for a block of %zu bytes to grow: raise one",
                           (size_t)from);
    }
    uint64_t calls = 0;
    double seconds = bench_run(1, work, &calls);
    struct bench_figure figures[] = {{"grown_to_bytes", (double)to}, {"rounds", (double)rounds}};
    bench_report(calls, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
