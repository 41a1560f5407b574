/* Many buffers, each of which grows by realloc, a little at a time. */
#include "bench.h"

static uint64_t buffers = 1000;
static uint64_t to = 60 * BENCH_KIB;
static uint64_t step = 512;
static uint64_t steps = 400000;
static uint64_t threads = 1;

static const struct bench_option options[] = {
    {.name = "buffers",
     .kind = BENCH_COUNT,
     .value = &buffers,
     .least = 1,
     .most = 1 << 24,
     .help = "buffers of each thread"},
    {.name = "to",
     .kind = BENCH_BYTES,
     .value = &to,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_GIB,
     .help = "size from which on a buffer is freed, and begun anew"},
    {.name = "step",
     .kind = BENCH_BYTES,
     .value = &step,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_MIB,
     .help = "greatest number of bytes that a buffer grows by; the least is a sixteenth of it, or 8"},
    {.name = "steps",
     .kind = BENCH_COUNT,
     .value = &steps,
     .least = 1,
     .most = 1ull << 32,
     .help = "times that each thread lets one of its buffers grow, whichever"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, each with buffers of its own"},
};

static const struct bench_workload workload = {
    .name = "growing_buffers",
    .stands_for =
        "The connections of a server, the columns of a table, or the lines of an editor: buffers to which\n"
        "a little is appended, now to one, then to another. How much room each is given when it has to be\n"
        "copied decides how often that is, and how much memory nobody uses.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

struct buffer {
    char *bytes;
    size_t size;
};

static void append(struct buffer *buffer, size_t more) {
    if (buffer->size + more > to) {
        bench_free(buffer->bytes);
        *buffer = (struct buffer){NULL, 0};
    }
    buffer->bytes = bench_realloc(buffer->bytes, buffer->size + more);
    bench_touch_all(buffer->bytes + buffer->size, more);
    buffer->size += more;
}

static void let_grow(struct bench_worker *worker, void *unused) {
    (void)unused;
    struct buffer *table = bench_table(buffers, sizeof *table);
    size_t least = step / 16 > BENCH_LEAST_BLOCK ? step / 16 : BENCH_LEAST_BLOCK;
    bench_begin(worker);
    for (uint64_t i = 0; i < steps; i++) {
        struct buffer *buffer = &table[bench_random_below(&worker->random, buffers)];
        append(buffer, bench_random_between(&worker->random, least, step));
    }
    for (size_t i = 0; i < buffers; i++) {
        bench_free(table[i].bytes);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    if (step > to) {
        bench_bad_argument("--step %zu exceeds --to %zu: give buffers room for a step", (size_t)step,
                           (size_t)to);
    }
    double seconds = bench_run((unsigned)threads, let_grow, NULL);
    struct bench_figure figures[] = {{"buffers", (double)(threads * buffers)}};
    bench_report(threads * steps, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
