/* What a workload program can be asked for, and how it says that it cannot go on. */
#ifndef HAKMEM_BENCH_ARGUMENTS_H
#define HAKMEM_BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_KIB ((uint64_t)1 << 10)
#define BENCH_MIB ((uint64_t)1 << 20)
#define BENCH_GIB ((uint64_t)1 << 30)

#define BENCH_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum bench_kind {
    BENCH_COUNT,  /* a whole number */
    BENCH_BYTES,  /* a whole number, which may end in K, M or G (of 1024) */
    BENCH_CHOICE, /* one of `choices`; the value is its index */
    BENCH_FLAG,   /* takes no argument; the value becomes 1 */
};

struct bench_option {
    const char *name; /* without the dashes */
    enum bench_kind kind;
    uint64_t *value;            /* the default before bench_start(), what was asked for after it */
    uint64_t least;             /* counts and bytes: the range that is accepted */
    uint64_t most;              /* the same */
    const char *const *choices; /* BENCH_CHOICE: the words, then NULL */
    const char *help;           /* what it sets, with the unit if it is a count */
};

struct bench_workload {
    const char *name;
    const char *stands_for; /* a sentence or two, for --help */
    const struct bench_option *options;
    size_t option_count;
};

/* Set by bench_start(), from the options that all programs have. */
struct bench_settings {
    const char *name;  /* the workload's */
    bool verify;       /* --verify: fill blocks, and check them when they are freed */
    bool plant_damage; /* --plant-damage, not in --help: spoil one block, for --verify to find */
    uint64_t seed;     /* --seed */
};
extern struct bench_settings bench;

/* Reads the arguments; `workload` must live as long as the program. Prints help and exits 0, or says what is
 * wrong and exits 2. */
void bench_start(const struct bench_workload *workload, int argc, char **argv);

/* One line on stderr, and exit 2: the arguments do not fit each other. */
void bench_bad_argument(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* One line on stderr, and exit 1: the workload cannot go on. */
void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
