/* Producers that allocate, and consumers that free. */
#include "batch.h"

static uint64_t min = 64;
static uint64_t max = 64;
static uint64_t batch_blocks = 256;
static uint64_t depth = 16;
static uint64_t pairs = 1;
static uint64_t operations = 5000000;

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, BENCH_SIZES_ALIKE),
    {.name = "batch",
     .kind = BENCH_COUNT,
     .value = &batch_blocks,
     .least = 1,
     .most = 1 << 20,
     .help = "blocks that go over together, in a block of pointers that is allocated and freed like them"},
    {.name = "depth",
     .kind = BENCH_COUNT,
     .value = &depth,
     .least = 2,
     .most = 1 << 20,
     .help = "batches that may wait; then the producer does"},
    {.name = "pairs",
     .kind = BENCH_COUNT,
     .value = &pairs,
     .least = 1,
     .most = BENCH_MOST_THREADS / 2,
     .help = "pairs of a producer and a consumer, each a thread"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each producer allocates, up to whole batches"},
};

static const struct bench_workload xmalloc = {
    .name = "xmalloc",
    .stands_for =
        "A pipeline: one thread reads messages into new blocks, another works them off and frees them, so "
        "that\n"
        "every block is freed by a thread other than its allocator's. What it costs to bring blocks home.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static uint64_t batches(void) {
    return (operations + batch_blocks - 1) / batch_blocks;
}

static void produce(struct batch_queue *queue, struct bench_random *random) {
    for (uint64_t i = 0; i < batches(); i++) {
        struct batch *batch = batch_new(batch_blocks);
        while (batch->count < batch_blocks) {
            batch->blocks[batch->count++] = bench_malloc(bench_random_between(random, min, max));
        }
        batch_queue_put(queue, batch);
    }
    batch_queue_close(queue);
}

static void consume(struct batch_queue *queue) {
    struct batch *batch = NULL;
    while ((batch = batch_queue_take(queue)) != NULL) {
        batch_free(batch);
    }
}

/* A thread of even index produces for the one after it. */
static void work(struct bench_worker *worker, void *context) {
    struct batch_queue *queue = (struct batch_queue *)context + worker->index / 2;
    bench_begin(worker);
    if (worker->index % 2 == 0) {
        produce(queue, &worker->random);
    } else {
        consume(queue);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&xmalloc, argc, argv);
    bench_require_range(min, max);
    struct batch_queue *queues = bench_table(pairs, sizeof *queues);
    for (size_t i = 0; i < pairs; i++) {
        batch_queue_init(&queues[i], depth);
    }
    double seconds = bench_run(2 * (unsigned)pairs, work, queues);
    struct bench_figure figures[] = {
        {"threads", (double)(2 * pairs)},
        {"most_waiting_blocks", (double)(pairs * depth * batch_blocks)},
    };
    bench_report(pairs * batches() * batch_blocks, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
