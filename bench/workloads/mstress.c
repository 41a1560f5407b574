/* A mix of everything: sizes of a power law, blocks that are kept, dropped or handed on, in phases. */
#include "bench.h"

#include <stdatomic.h>

static uint64_t threads = 2;
static uint64_t phases = 10;
static uint64_t operations = 100000;
static uint64_t max = 256 * BENCH_KIB;
static uint64_t places = 1000;

static const struct bench_option options[] = {
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads of each phase"},
    {.name = "phases",
     .kind = BENCH_COUNT,
     .value = &phases,
     .least = 1,
     .most = 1 << 20,
     .help = "phases, each with new threads"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "blocks that each thread allocates in each phase"},
    {.name = "max",
     .kind = BENCH_BYTES,
     .value = &max,
     .least = 2 * BENCH_LEAST_BLOCK,
     .most = BENCH_GIB,
     .help = "blocks are smaller than this; those of twice the size are half as frequent"},
    {.name = "places",
     .kind = BENCH_COUNT,
     .value = &places,
     .least = 1,
     .most = 1 << 20,
     .help = "blocks that wait for any thread to take them"},
};

static const struct bench_workload mstress = {
    .name = "mstress",
    .stands_for = "A long-running program with stages: threads come and go, most objects are small and "
                  "short-lived, a few\n"
                  "are large, some are kept to the end of the stage, and many are handed to whichever thread "
                  "needs them.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* A thread keeps this many blocks at most; when it has more, it drops half of them. */
#define MOST_KEPT 2048

/* What a thread does with a new block, in percent: it keeps it, swaps it with a shared place and frees what
 * was there, or frees it at once. */
#define KEEP_PERCENT 50
#define SWAP_PERCENT 35

/* One of the threads that work at a time; each phase starts it anew. */
struct actor {
    _Alignas(BENCH_LINE) pthread_t thread;
    struct bench_random random;
    _Atomic(void *) *places; /* blocks that belong to no thread */
    size_t kept_count;
    void *kept[MOST_KEPT];
};

/* From 8 to 15 bytes with the chance 1/2, to 31 with 1/4, to 63 with 1/8 and so on; what is beyond `max`
 * becomes one of the smallest. */
static size_t random_size(struct bench_random *random) {
    size_t bits = bench_random_next(random) | (uint64_t)1 << 63;
    size_t least = BENCH_LEAST_BLOCK << __builtin_ctzll(bits) % 32;
    if (2 * least > max) {
        least = BENCH_LEAST_BLOCK;
    }
    return bench_random_between(random, least, 2 * least - 1);
}

static void drop_half(struct actor *actor) {
    size_t stay = actor->kept_count / 2;
    while (actor->kept_count > stay) {
        void **dropped = &actor->kept[bench_random_below(&actor->random, actor->kept_count)];
        bench_free(*dropped);
        *dropped = actor->kept[--actor->kept_count];
    }
}

static void drop_all(struct actor *actor) {
    while (actor->kept_count > 0) {
        bench_free(actor->kept[--actor->kept_count]);
    }
}

static void *act(void *argument) {
    struct actor *actor = argument;
    for (uint64_t i = 0; i < operations; i++) {
        void *block = bench_malloc(random_size(&actor->random));
        size_t chance = bench_random_below(&actor->random, 100);
        if (chance < KEEP_PERCENT) {
            actor->kept[actor->kept_count++] = block;
        } else if (chance < KEEP_PERCENT + SWAP_PERCENT) {
            _Atomic(void *) *place = &actor->places[bench_random_below(&actor->random, places)];
            bench_free(atomic_exchange_explicit(place, block, memory_order_acq_rel));
        } else {
            bench_free(block);
        }
        if (actor->kept_count == MOST_KEPT) {
            drop_half(actor);
        }
    }
    drop_all(actor);
    return NULL;
}

/* Takes `share` of each ten blocks out of the shared places. */
static void clear_places(_Atomic(void *) *shared, size_t share) {
    for (size_t i = 0; i < places; i++) {
        if (i % 10 < share) {
            bench_free(atomic_exchange(&shared[i], NULL));
        }
    }
}

static void run_phase(struct actor *actors, uint64_t phase) {
    for (size_t i = 0; i < threads; i++) {
        actors[i].thread = bench_thread_start(act, &actors[i]);
    }
    for (size_t i = 0; i < threads; i++) {
        bench_thread_join(actors[i].thread);
    }
    /* Phases leave different amounts behind; the last leaves none. */
    clear_places(actors->places, phase + 1 == phases ? 10 : phase % 11);
}

int main(int argc, char **argv) {
    bench_start(&mstress, argc, argv);
    _Atomic(void *) *shared = bench_table(places, sizeof *shared);
    struct actor *actors = bench_table(threads, sizeof *actors);
    for (size_t i = 0; i < threads; i++) {
        actors[i].random = bench_random_stream(i);
        actors[i].places = shared;
    }
    double begun = bench_now();
    for (uint64_t phase = 0; phase < phases; phase++) {
        run_phase(actors, phase);
    }
    double seconds = bench_now() - begun;
    struct bench_figure figures[] = {
        {"threads", (double)threads},
        {"threads_started", (double)(threads * phases)},
    };
    bench_report(phases * threads * operations, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
