/* What a program that has freed everything still holds: allocate, measure, free all, measure, ask for it to
 * be given back, measure, idle, measure. With --release none, or on an allocator that cannot be asked, no
 * call is made between the last free and the last measurement.
 *
 * The table of pointers is mapped outside the heap; no figure has it in.
 */
#include "bench.h"
#include "release.h"
#include "resident.h"

#include <time.h>

static const char *const releases[] = {"trim", "none", NULL};
enum { RELEASE_TRIM, RELEASE_NONE };

static uint64_t blocks = 1000000, size = 16, threads = 1, release = RELEASE_TRIM, idle_ms = 2000;

static const struct bench_option options[] = {
    {.name = "blocks",
     .kind = BENCH_COUNT,
     .value = &blocks,
     .least = 1,
     .most = 1000000000,
     .help = "blocks to allocate, over all threads"},
    {.name = "size",
     .kind = BENCH_BYTES,
     .value = &size,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_GIB,
     .help = "bytes of each"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads that share the blocks; they sleep once they have freed theirs"},
    {.name = "release",
     .kind = BENCH_CHOICE,
     .value = &release,
     .choices = releases,
     .help =
         "how the program asks for memory to be given back: by the allocator's own function, or not at all"},
    {.name = "idle-ms",
     .kind = BENCH_COUNT,
     .value = &idle_ms,
     .most = 600000,
     .help = "milliseconds without a call before the last measurement"},
};

static const struct bench_workload workload = {
    .name = "battle",
    .stands_for = "A program that has had a peak of work and now has nothing to do: what it still holds.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

struct battle {
    pthread_barrier_t step; /* all threads are between two steps; the first one measures there */
    void **table;
    uint64_t rss_start, rss_allocated, rss_freed, rss_released, rss_idle;
    double allocating_seconds, freeing_seconds, releasing_seconds;
    bool released;
};

static void sleep_ms(uint64_t milliseconds) {
    struct timespec left = {.tv_sec = (time_t)(milliseconds / 1000),
                            .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void all_allocate(struct bench_worker *worker, struct battle *battle) {
    for (size_t i = worker->index; i < blocks; i += threads) {
        battle->table[i] = bench_malloc(size);
        bench_touch_all(battle->table[i], size);
    }
    pthread_barrier_wait(&battle->step);
}

static void all_free(struct bench_worker *worker, struct battle *battle) {
    for (size_t i = worker->index; i < blocks; i += threads) {
        bench_free(battle->table[i]);
    }
    pthread_barrier_wait(&battle->step);
}

static void all_release(struct battle *battle) {
    double begun = bench_now();
    battle->released = release == RELEASE_TRIM && release_memory();
    battle->releasing_seconds = bench_now() - begun;
    battle->rss_released = resident_bytes();
}

/* The first thread, which goes along and measures while the others wait. */
static void lead(struct bench_worker *worker, struct battle *battle) {
    battle->rss_start = resident_bytes();
    pthread_barrier_wait(&battle->step);
    double begun = bench_now();
    all_allocate(worker, battle);
    battle->allocating_seconds = bench_now() - begun;
    battle->rss_allocated = resident_bytes();
    pthread_barrier_wait(&battle->step);
    begun = bench_now();
    all_free(worker, battle);
    battle->freeing_seconds = bench_now() - begun;
    battle->rss_freed = resident_bytes();
    all_release(battle);
    sleep_ms(idle_ms);
    battle->rss_idle = resident_bytes();
    pthread_barrier_wait(&battle->step);
}

static void follow(struct bench_worker *worker, struct battle *battle) {
    pthread_barrier_wait(&battle->step);
    all_allocate(worker, battle);
    pthread_barrier_wait(&battle->step);
    all_free(worker, battle);
    pthread_barrier_wait(&battle->step);
}

static void work(struct bench_worker *worker, void *context) {
    bench_begin(worker);
    if (worker->index == 0) {
        lead(worker, context);
    } else {
        follow(worker, context);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    static struct battle battle;
    battle.table = resident_table(blocks, sizeof *battle.table);
    pthread_barrier_init(&battle.step, NULL, (unsigned)threads);
    bench_run((unsigned)threads, work, &battle);

    uint64_t kept = battle.rss_idle > battle.rss_start ? battle.rss_idle - battle.rss_start : 0;
    const struct bench_figure figures[] = {
        {"data_bytes", (double)(blocks * size)},
        {"rss_start_bytes", (double)battle.rss_start},
        {"rss_allocated_bytes", (double)battle.rss_allocated},
        {"rss_freed_bytes", (double)battle.rss_freed},
        {"rss_idle_bytes", (double)battle.rss_idle},
        {"kept_bytes", (double)kept},
        {"peak_rss_bytes", (double)resident_peak_bytes()},
        /* The last ones only where something was called. */
        {"rss_released_bytes", (double)battle.rss_released},
        {"release_seconds", battle.releasing_seconds},
    };
    bench_report(2 * blocks, battle.allocating_seconds + battle.freeing_seconds, figures,
                 BENCH_COUNT_OF(figures) - (battle.released ? 0 : 2));
    return 0;
}
