/* Random replacement: each thread holds a table of blocks, and over and over frees one that it picks at
 * random and puts a new one of random size in its place. Several programs are this with other sizes. */
#ifndef HAKMEM_CHURN_H
#define HAKMEM_CHURN_H

#include "bench.h"

/* How much of a new block is written. */
enum churn_touch { CHURN_TOUCH_WORD, CHURN_TOUCH_PAGES, CHURN_TOUCH_ALL };

struct churn_shape {
    const char *name;
    const char *stands_for;
    /* The defaults. */
    uint64_t min;
    uint64_t max;
    uint64_t slots;
    uint64_t operations;
    uint64_t threads;
    enum churn_touch touch;
};

/* Reads the arguments, runs, reports: all that main() has to do. Returns its exit status. */
int churn_main(const struct churn_shape *shape, int argc, char **argv);

#endif
