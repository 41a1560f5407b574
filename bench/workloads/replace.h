/* Random replacement of whatever a program holds: each thread has a table of items, and over and over drops
 * one that it picks at random and puts a new one in its place. churn.h is this for blocks of malloc's. */
#ifndef HAKMEM_REPLACE_H
#define HAKMEM_REPLACE_H

#include "bench.h"

struct replacement {
    size_t item_bytes;
    void (*put)(void *item, struct bench_random *random);
    void (*drop)(const void *item);
    uint64_t slots; /* items of each thread */
    uint64_t operations;
    uint64_t threads;
};

/* Runs and reports: all that main() has to do after the arguments are read. */
void replace_and_report(const struct replacement *replacement);

#endif
