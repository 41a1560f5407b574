/* What the workload programs share: arguments, blocks whose contents can be verified, random numbers, timed
 * threads, tables outside the heap, and the JSON line.
 *
 * A program declares a `struct bench_workload`, calls bench_start() first, puts its work between
 * bench_begin() and bench_end(), and bench_report() last. Nothing here uses the heap between begin and end,
 * apart from bench_malloc(), bench_realloc() and bench_free(), which are calls of malloc, realloc and free.
 */
#ifndef HAKMEM_BENCH_H
#define HAKMEM_BENCH_H

#include "arguments.h"
#include "blocks.h"

#include <pthread.h>
#include <stdalign.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_MOST_THREADS 1024

/* Destructive interference: two cache lines, since processors fetch them in pairs. */
#define BENCH_LINE 128

struct bench_figure {
    const char *name; /* with its unit, as in "live_bytes" */
    double value;
};

/* Prints the JSON line. `seconds` is what was measured, without start-up and warm-up. */
void bench_report(uint64_t operations, double seconds, const struct bench_figure *figures, size_t count);

/* Seconds of the monotonic clock. */
double bench_now(void);

/* A generator of random numbers: small, fast, the same numbers everywhere for the same seed. */
struct bench_random {
    uint64_t state;
};

/* The generator number `stream`; for each number and --seed it gives numbers of its own. */
struct bench_random bench_random_stream(uint64_t stream);

static inline uint64_t bench_random_next(struct bench_random *random) {
    uint64_t word = random->state += 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

/* A number from 0 to bound - 1, all equally likely; `bound` is at most 2^32. */
static inline size_t bench_random_below(struct bench_random *random, size_t bound) {
    return (size_t)(((bench_random_next(random) >> 32) * bound) >> 32);
}

/* A number from `least` to `most`, all equally likely. */
static inline size_t bench_random_between(struct bench_random *random, size_t least, size_t most) {
    return least + bench_random_below(random, most - least + 1);
}

/* A number from `least` to `most`, whose powers of two are equally likely: many small ones, few large. */
static inline size_t bench_random_scaled(struct bench_random *random, size_t least, size_t most) {
    unsigned octaves = 0;
    while (least << (octaves + 1) < most) {
        octaves++;
    }
    size_t from = least << bench_random_below(random, octaves + 1);
    return bench_random_between(random, from, 2 * from < most ? 2 * from : most);
}

/* The options of a program whose blocks are from --min to --max bytes long, and, behind bench_start(), the
 * check that they are a range. */
#define BENCH_RANGE_OF_SIZES(min_value, max_value, max_help)                                                 \
    {.name = "min",                                                                                          \
     .kind = BENCH_BYTES,                                                                                    \
     .value = (min_value),                                                                                   \
     .least = BENCH_LEAST_BLOCK,                                                                             \
     .most = BENCH_GIB,                                                                                      \
     .help = "least size of a block"},                                                                       \
    {                                                                                                        \
        .name = "max", .kind = BENCH_BYTES, .value = (max_value), .least = BENCH_LEAST_BLOCK,                \
        .most = BENCH_GIB, .help = (max_help)                                                                \
    }
#define BENCH_SIZES_ALIKE "greatest size; all between are equally likely"

static inline void bench_require_range(uint64_t min, uint64_t max) {
    if (min > max) {
        bench_bad_argument("--min %zu exceeds --max %zu: give a range", (size_t)min, (size_t)max);
    }
}

struct bench_worker {
    alignas(BENCH_LINE) unsigned index; /* from 0 */
    struct bench_random random;         /* its own stream */
    struct bench_team *team;
    pthread_t thread;
    double begun;
    double ended;
};

typedef void bench_work(struct bench_worker *worker, void *context);

/* Runs `work` in `threads` threads, in the calling one if it is only one. Each must call bench_begin() and
 * bench_end() once. Returns the seconds from the first that began to the last that ended. One call at a time.
 */
double bench_run(unsigned threads, bench_work *work, void *context);

/* Waits until all are here, then starts the clock. What went before is warm-up. */
void bench_begin(struct bench_worker *worker);

/* Stops the clock. What comes after is tidying up. */
void bench_end(struct bench_worker *worker);

/* A thread that the workload itself starts and joins. */
pthread_t bench_thread_start(void *(*function)(void *), void *argument);
void bench_thread_join(pthread_t thread);

/* A table outside the heap: zeroed, resident, aligned to a page; never freed. */
void *bench_table(size_t count, size_t size);

#ifdef __cplusplus
}
#endif

#endif
