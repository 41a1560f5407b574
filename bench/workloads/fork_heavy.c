/* A process with a heap that forks often. Each child frees some of what it inherited, allocates a little and
 * exits; the parent replaces some of its blocks meanwhile, so that pages are copied on both sides. */
#include "bench.h"
#include "child.h"
#include "resident.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LEAST_SIZE = 16, MOST_SIZE = 2048, MEAN_SIZE = (LEAST_SIZE + MOST_SIZE) / 2 };

static uint64_t heap = 64 * BENCH_MIB, forks = 100, child_blocks = 1000, parent_blocks = 1000;

static const struct bench_option options[] = {
    {.name = "heap",
     .kind = BENCH_BYTES,
     .value = &heap,
     .least = BENCH_MIB,
     .most = 64 * BENCH_GIB,
     .help = "bytes of blocks that the parent holds, each of 16 B to 2 KiB"},
    {.name = "forks",
     .kind = BENCH_COUNT,
     .value = &forks,
     .least = 1,
     .most = 10000000,
     .help = "children, one after the other"},
    {.name = "child-blocks",
     .kind = BENCH_COUNT,
     .value = &child_blocks,
     .most = 1000000,
     .help = "blocks that each child replaces"},
    {.name = "parent-blocks",
     .kind = BENCH_COUNT,
     .value = &parent_blocks,
     .most = 1000000,
     .help = "blocks that the parent replaces while a child runs"},
};

static const struct bench_workload workload = {
    .name = "fork_heavy",
    .stands_for = "A server that forks for each job, or to write a snapshot: the cost of a fork of its heap.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

struct heap {
    void **blocks;
    size_t count;
};

static struct heap build(struct bench_random *random) {
    struct heap built = {.count = heap / MEAN_SIZE};
    built.blocks = bench_table(built.count, sizeof *built.blocks);
    for (size_t i = 0; i < built.count; i++) {
        size_t size = bench_random_between(random, LEAST_SIZE, MOST_SIZE);
        built.blocks[i] = bench_malloc(size);
        bench_touch_all(built.blocks[i], size);
    }
    return built;
}

static void replace_some(struct heap *of, uint64_t count, struct bench_random *random) {
    for (uint64_t i = 0; i < count; i++) {
        void **slot = &of->blocks[bench_random_below(random, of->count)];
        bench_free(*slot);
        *slot = bench_malloc(bench_random_between(random, LEAST_SIZE, MOST_SIZE));
    }
}

static void run_child(struct heap *inherited, uint64_t number) {
    struct bench_random random = bench_random_stream(1 + number);
    replace_some(inherited, child_blocks, &random);
    _exit(0);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    struct bench_random random = bench_random_stream(0);
    struct heap own = build(&random);
    uint64_t faults_before = minor_faults();
    double begun = bench_now();
    for (uint64_t i = 0; i < forks; i++) {
        pid_t child = fork();
        if (child < 0) {
            bench_fail("no child can be forked: %s", strerror(errno));
        }
        if (child == 0) {
            run_child(&own, i);
        }
        replace_some(&own, parent_blocks, &random);
        child_await(child);
    }
    double seconds = bench_now() - begun;
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    const struct bench_figure figures[] = {
        {"parent_faults_per_fork", (double)(minor_faults() - faults_before) / (double)forks},
        {"child_faults_per_fork", (double)children.ru_minflt / (double)forks},
    };
    bench_report(forks, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
