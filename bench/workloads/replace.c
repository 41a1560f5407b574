#include "replace.h"

static void work(struct bench_worker *worker, void *context) {
    const struct replacement *of = context;
    struct bench_random *random = &worker->random;
    unsigned char *items = bench_table(of->slots, of->item_bytes);
    for (size_t i = 0; i < of->slots; i++) {
        of->put(items + i * of->item_bytes, random);
    }
    bench_begin(worker);
    for (uint64_t i = 0; i < of->operations; i++) {
        void *item = items + bench_random_below(random, of->slots) * of->item_bytes;
        of->drop(item);
        of->put(item, random);
    }
    bench_end(worker);
    for (size_t i = 0; i < of->slots; i++) {
        of->drop(items + i * of->item_bytes);
    }
}

void replace_and_report(const struct replacement *replacement) {
    const struct replacement *of = replacement;
    double seconds = bench_run((unsigned)of->threads, work, (void *)(uintptr_t)of);
    struct bench_figure figures[] = {{"threads", (double)of->threads},
                                     {"live_blocks", (double)(of->slots * of->threads)}};
    bench_report(of->operations * of->threads, seconds, figures, BENCH_COUNT_OF(figures));
}
