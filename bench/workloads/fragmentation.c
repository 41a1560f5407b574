/* Resident memory against live bytes where the mix of sizes changes. Each phase allocates blocks of its own
 * sizes, frees random ones to stay at its target, and is measured at its end. What is left of earlier phases
 * lies scattered among the free memory that later ones, of other sizes, have to make do with.
 *
 * The tables are mapped outside the heap; no figure has them in.
 */
#include "bench.h"
#include "pool.h"
#include "resident.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

struct share {
    size_t least, most; /* sizes are spread evenly over the doublings between */
    unsigned per_mille; /* of the blocks */
};

enum { MOST_SHARES = 3, MOST_PHASES = 8, PHASE_NAME = 64 };

struct phase {
    const char *name;
    unsigned target;   /* live at its end, in percent of --live */
    unsigned turnover; /* allocated in it, in the same percent */
    struct share mix[MOST_SHARES];
};

struct mode {
    bool handed_over; /* blocks are freed by other threads than those that allocated them */
    size_t least;     /* of all sizes */
    struct phase phases[MOST_PHASES];
};

#define DAY_MIX(sessions, documents, buffers)                                                                \
    {                                                                                                        \
        {48, 512, (sessions)}, {1024, 16384, (documents)}, {                                                 \
            32768, 262144, (buffers)                                                                         \
        }                                                                                                    \
    }

static const struct mode server_day = {
    .least = 48,
    .phases = {{"early", 15, 30, DAY_MIX(980, 20, 0)},
               {"morning", 60, 100, DAY_MIX(960, 38, 2)},
               {"noon", 100, 200, DAY_MIX(900, 90, 10)},
               {"batch", 80, 100, DAY_MIX(500, 300, 200)},
               {"evening", 40, 80, DAY_MIX(970, 30, 0)},
               {"night", 12, 5, DAY_MIX(985, 15, 0)}},
};

static const struct mode redis_like = {
    .least = 64,
    .phases = {{"filled", 60, 60, {{64, 191, 1000}}},
               {"half_deleted", 30, 0, {{64, 191, 1000}}},
               {"refilled", 75, 45, {{192, 511, 1000}}},
               {"half_deleted_again", 37, 0, {{192, 511, 1000}}},
               {"refilled_larger", 100, 63, {{512, 2048, 1000}}},
               {"drained", 10, 0, {{512, 2048, 1000}}}},
};

static const struct mode handover = {
    .handed_over = true,
    .least = 64,
    .phases = {{"messages", 50, 150, {{64, 1024, 1000}}},
               {"pages", 100, 150, {{4096, 16384, 1000}}},
               {"lull", 10, 5, {{64, 1024, 1000}}},
               {"larger_messages", 100, 200, {{256, 4096, 1000}}},
               {"idle", 5, 0, {{256, 4096, 1000}}}},
};

static const struct mode *const modes[] = {&server_day, &redis_like, &handover};
static const char *const mode_names[] = {"server-day", "redis-like", "handover", NULL};

static uint64_t chosen_mode, live = 128 * BENCH_MIB, threads = 4;

static const struct bench_option options[] = {
    {.name = "mode",
     .kind = BENCH_CHOICE,
     .value = &chosen_mode,
     .choices = mode_names,
     .help = "the phases"},
    {.name = "live",
     .kind = BENCH_BYTES,
     .value = &live,
     .least = BENCH_MIB,
     .most = 64 * BENCH_GIB,
     .help = "bytes of blocks at the fullest phase"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 2,
     .most = BENCH_MOST_THREADS,
     .help = "of handover: an even number, half of them producers; the other modes have one"},
};

static const struct bench_workload workload = {
    .name = "fragmentation",
    .stands_for =
        "A server that runs for long while what it is asked for changes: a day of requests (server-day),\n"
        "a store whose values grow (redis-like), stages that hand blocks on (handover).",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

enum { QUEUE_SLOTS = 1024 };

/* From one producer to one consumer. */
struct queue {
    _Alignas(BENCH_LINE) atomic_size_t pushed;
    _Alignas(BENCH_LINE) atomic_size_t popped;
    _Alignas(BENCH_LINE) struct pool_block slots[QUEUE_SLOTS];
};

static const struct pool_block end_of_phase = {NULL, 0};

static void push(struct queue *queue, struct pool_block block) {
    size_t at = atomic_load_explicit(&queue->pushed, memory_order_relaxed);
    while (at - atomic_load_explicit(&queue->popped, memory_order_acquire) == QUEUE_SLOTS) {
        sched_yield();
    }
    queue->slots[at % QUEUE_SLOTS] = block;
    atomic_store_explicit(&queue->pushed, at + 1, memory_order_release);
}

static struct pool_block pop(struct queue *queue) {
    size_t at = atomic_load_explicit(&queue->popped, memory_order_relaxed);
    while (atomic_load_explicit(&queue->pushed, memory_order_acquire) == at) {
        sched_yield();
    }
    struct pool_block block = queue->slots[at % QUEUE_SLOTS];
    atomic_store_explicit(&queue->popped, at + 1, memory_order_release);
    return block;
}

/* What a thread allocates, or holds, or both. A lane is all there is in the modes of one thread; with
 * handover a producer and a consumer share each. */
struct lane {
    struct queue queue;
    struct pool pool;
};

struct run {
    const struct mode *mode;
    size_t lane_count;
    struct lane *lanes;
    pthread_barrier_t step; /* all threads are between two phases; the first one measures there */
    uint64_t live_bytes[MOST_PHASES], rss_bytes[MOST_PHASES];
    double seconds;
};

static size_t phase_count(const struct mode *mode) {
    size_t count = 0;
    while (count < MOST_PHASES && mode->phases[count].name != NULL) {
        count++;
    }
    return count;
}

static uint64_t share_of_lane(const struct run *run, unsigned percent) {
    return live / run->lane_count * percent / 100;
}

static size_t pick_size(const struct phase *phase, struct bench_random *random) {
    const struct share *share = phase->mix;
    for (size_t ticket = bench_random_below(random, 1000); ticket >= share->per_mille; share++) {
        ticket -= share->per_mille;
    }
    unsigned doublings = 0;
    while (share->least << (doublings + 1) <= share->most) {
        doublings++;
    }
    size_t least = share->least << bench_random_below(random, doublings + 1);
    size_t most = 2 * least - 1 < share->most ? 2 * least - 1 : share->most;
    return bench_random_between(random, least, most);
}

static struct pool_block allocate(const struct phase *phase, struct bench_random *random) {
    struct pool_block block = {.size = pick_size(phase, random)};
    block.start = bench_malloc(block.size);
    bench_touch_all(block.start, block.size);
    return block;
}

static void add_within_target(struct pool *pool, struct pool_block block, uint64_t target,
                              struct bench_random *random) {
    pool_add(pool, block);
    pool_shrink(pool, target, random);
}

static void produce(const struct run *run, const struct phase *phase, struct lane *lane,
                    struct bench_random *random) {
    uint64_t turnover = share_of_lane(run, phase->turnover);
    for (uint64_t allocated = 0; allocated < turnover;) {
        struct pool_block block = allocate(phase, random);
        allocated += block.size;
        push(&lane->queue, block);
    }
    push(&lane->queue, end_of_phase);
}

static void consume(const struct run *run, const struct phase *phase, struct lane *lane,
                    struct bench_random *random) {
    uint64_t target = share_of_lane(run, phase->target);
    for (struct pool_block block = pop(&lane->queue); block.start != NULL; block = pop(&lane->queue)) {
        add_within_target(&lane->pool, block, target, random);
    }
    pool_shrink(&lane->pool, target, random);
}

static void do_alone(const struct run *run, const struct phase *phase, struct lane *lane,
                     struct bench_random *random) {
    uint64_t target = share_of_lane(run, phase->target);
    uint64_t turnover = share_of_lane(run, phase->turnover);
    for (uint64_t allocated = 0; allocated < turnover;) {
        struct pool_block block = allocate(phase, random);
        allocated += block.size;
        add_within_target(&lane->pool, block, target, random);
    }
    pool_shrink(&lane->pool, target, random);
}

static void measure(struct run *run, size_t phase) {
    for (size_t i = 0; i < run->lane_count; i++) {
        run->live_bytes[phase] += run->lanes[i].pool.live_bytes;
    }
    run->rss_bytes[phase] = resident_bytes();
}

static void work(struct bench_worker *worker, void *context) {
    struct run *run = context;
    bool leads = worker->index == 0;
    struct lane *lane = &run->lanes[run->mode->handed_over ? worker->index / 2 : 0];
    bench_begin(worker);
    for (size_t i = 0; i < phase_count(run->mode); i++) {
        const struct phase *phase = &run->mode->phases[i];
        pthread_barrier_wait(&run->step);
        double begun = bench_now();
        if (!run->mode->handed_over) {
            do_alone(run, phase, lane, &worker->random);
        } else if (worker->index % 2 == 0) {
            produce(run, phase, lane, &worker->random);
        } else {
            consume(run, phase, lane, &worker->random);
        }
        pthread_barrier_wait(&run->step);
        if (leads) {
            run->seconds += bench_now() - begun;
            measure(run, i);
        }
    }
    bench_end(worker);
}

static void report(const struct run *run) {
    static char names[2 * MOST_PHASES][PHASE_NAME];
    struct bench_figure figures[2 * MOST_PHASES + 3];
    size_t count = 0;
    double logarithms = 0, most = 0;
    size_t phases = phase_count(run->mode);
    for (size_t i = 0; i < phases; i++) {
        const char *phase = run->mode->phases[i].name;
        snprintf(names[count], PHASE_NAME, "%s_live_bytes", phase);
        figures[count] = (struct bench_figure){names[count], (double)run->live_bytes[i]};
        count++;
        snprintf(names[count], PHASE_NAME, "%s_rss_bytes", phase);
        figures[count] = (struct bench_figure){names[count], (double)run->rss_bytes[i]};
        count++;
        double ratio = (double)run->rss_bytes[i] / (double)run->live_bytes[i];
        logarithms += log(ratio);
        most = ratio > most ? ratio : most;
    }
    figures[count++] = (struct bench_figure){"rss_per_live_mean", exp(logarithms / (double)phases)};
    figures[count++] = (struct bench_figure){"rss_per_live_most", most};
    figures[count++] = (struct bench_figure){"peak_rss_bytes", (double)resident_peak_bytes()};
    uint64_t operations = 0;
    for (size_t i = 0; i < run->lane_count; i++) {
        operations += run->lanes[i].pool.added;
    }
    bench_report(operations, run->seconds, figures, count);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    static struct run run;
    run.mode = modes[chosen_mode];
    if (run.mode->handed_over && threads % 2 != 0) {
        bench_bad_argument("--threads: give an even number, for each producer a consumer");
    }
    unsigned workers = run.mode->handed_over ? (unsigned)threads : 1;
    run.lane_count = run.mode->handed_over ? workers / 2 : 1;
    run.lanes = resident_table(run.lane_count, sizeof *run.lanes);
    for (size_t i = 0; i < run.lane_count; i++) {
        /* One more than fit: a block is added before others are freed for it. */
        run.lanes[i].pool = pool_create(live / run.lane_count / run.mode->least + 1);
    }
    pthread_barrier_init(&run.step, NULL, workers);
    bench_run(workers, work, &run);
    report(&run);
    for (size_t i = 0; i < run.lane_count && bench.verify; i++) {
        struct bench_random random = bench_random_stream(workers);
        pool_shrink(&run.lanes[i].pool, 0, &random);
    }
    return 0;
}
