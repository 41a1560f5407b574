/* What a short process costs: starts itself many times, one after the other, as a child that allocates a
 * little and exits. */
#include "bench.h"
#include "child.h"

#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

enum { MOST_CHILD_BLOCKS = 4096 };

static uint64_t starts = 200, blocks = 100, is_child;

static const struct bench_option options[] = {
    {.name = "starts",
     .kind = BENCH_COUNT,
     .value = &starts,
     .least = 1,
     .most = 10000000,
     .help = "processes to start"},
    {.name = "blocks",
     .kind = BENCH_COUNT,
     .value = &blocks,
     .most = MOST_CHILD_BLOCKS,
     .help = "blocks of 16 B to 2 KiB that each allocates before it exits"},
    {.name = "child", .kind = BENCH_FLAG, .value = &is_child},
};

static const struct bench_workload workload = {
    .name = "startup",
    .stands_for = "Shell scripts and builds, which run thousands of short programs: the cost of one of them.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static int be_child(void) {
    static void *table[MOST_CHILD_BLOCKS];
    struct bench_random random = bench_random_stream(0);
    for (size_t i = 0; i < blocks; i++) {
        table[i] = bench_malloc(bench_random_between(&random, 16, 2048));
    }
    for (size_t i = 0; i < blocks; i++) {
        bench_free(table[i]);
    }
    return 0;
}

/* The arguments for the child: this process's own, and the one that makes it a child. */
static char **child_arguments(int argc, char **argv) {
    static char child_option[] = "--child";
    char **arguments = bench_table((size_t)argc + 2, sizeof *arguments);
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = child_option;
    return arguments;
}

static void start_one(char **arguments) {
    pid_t child;
    int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
    if (error != 0) {
        bench_fail("no process can be started: %s", strerror(error));
    }
    child_await(child);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    if (is_child) {
        return be_child();
    }
    char **arguments = child_arguments(argc, argv);
    start_one(arguments); /* the first one finds the files not yet cached */
    struct rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    double begun = bench_now();
    for (uint64_t i = 0; i < starts; i++) {
        start_one(arguments);
    }
    double seconds = bench_now() - begun;
    getrusage(RUSAGE_CHILDREN, &after);
    const struct bench_figure figures[] = {
        {"faults_per_start", (double)(after.ru_minflt - before.ru_minflt) / (double)starts},
    };
    bench_report(starts, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
