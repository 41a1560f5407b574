#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static void print_figure(const char *name, double value) {
    /* 2^53: up to there every whole number is exact. */
    bool whole = value >= 0 && value < 9007199254740992.0 && (double)(uint64_t)value == value;
    printf(whole ? ", \"%s\": %.0f" : ", \"%s\": %.9g", name, value);
}

void bench_report(uint64_t operations, double seconds, const struct bench_figure *figures, size_t count) {
    printf("{\"workload\": \"%s\", \"operations\": %" PRIu64 ", \"seconds\": %.9f", bench.name, operations,
           seconds);
    for (size_t i = 0; i < count; i++) {
        print_figure(figures[i].name, figures[i].value);
    }
    printf("}\n");
    if (fflush(stdout) != 0) {
        bench_fail("the result cannot be written: %s", strerror(errno));
    }
}

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct bench_random bench_random_stream(uint64_t stream) {
    struct bench_random random = {.state = bench.seed};
    random.state = bench_random_next(&random) + stream;
    random.state = bench_random_next(&random);
    return random;
}

struct bench_team {
    pthread_barrier_t start;
    bench_work *work;
    void *context;
};

static void *worker_main(void *argument) {
    struct bench_worker *worker = argument;
    worker->team->work(worker, worker->team->context);
    return NULL;
}

static struct bench_worker workers[BENCH_MOST_THREADS];

double bench_run(unsigned threads, bench_work *work, void *context) {
    struct bench_team team = {.work = work, .context = context};
    pthread_barrier_init(&team.start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].random = bench_random_stream(i);
        workers[i].team = &team;
    }
    if (threads == 1) {
        worker_main(&workers[0]);
    } else {
        for (unsigned i = 0; i < threads; i++) {
            workers[i].thread = bench_thread_start(worker_main, &workers[i]);
        }
        for (unsigned i = 0; i < threads; i++) {
            bench_thread_join(workers[i].thread);
        }
    }
    pthread_barrier_destroy(&team.start);

    double begun = workers[0].begun, ended = workers[0].ended;
    for (unsigned i = 1; i < threads; i++) {
        begun = workers[i].begun < begun ? workers[i].begun : begun;
        ended = workers[i].ended > ended ? workers[i].ended : ended;
    }
    return ended - begun;
}

void bench_begin(struct bench_worker *worker) {
    pthread_barrier_wait(&worker->team->start);
    worker->begun = bench_now();
}

void bench_end(struct bench_worker *worker) {
    worker->ended = bench_now();
}

pthread_t bench_thread_start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, function, argument);
    if (error != 0) {
        bench_fail("no thread can be started (%s); ask for fewer", strerror(error));
    }
    return thread;
}

void bench_thread_join(pthread_t thread) {
    int error = pthread_join(thread, NULL);
    if (error != 0) {
        bench_fail("a thread cannot be joined: %s", strerror(error));
    }
}

static size_t round_up(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

void *bench_table(size_t count, size_t size) {
    /* A large table lies on huge pages whichever way the allocator's mappings have pushed it, so that its own
     * TLB misses are the same in all runs. */
    const size_t huge_page = 2 * BENCH_MIB;
    size_t bytes = count * size;
    bool large = bytes >= huge_page;
    bytes = round_up(bytes, large ? huge_page : 4 * BENCH_KIB);
    size_t reserved = large ? bytes + huge_page : bytes;
    char *start = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        bench_out_of_memory(reserved);
    }
    if (large) {
        start = (char *)round_up((uintptr_t)start, huge_page);
        madvise(start, bytes, MADV_HUGEPAGE); /* advice: a kernel without them goes on with small pages */
    }
    memset(start, 0, bytes);
    return start;
}
