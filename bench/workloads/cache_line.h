/* Two programs that differ in who allocates the first blocks: threads write small blocks of their own, again
 * and again, and take long if the allocator gave blocks on one cache line to several of them. */
#ifndef HAKMEM_CACHE_LINE_H
#define HAKMEM_CACHE_LINE_H

#include "bench.h"

struct cache_line_shape {
    const char *name;
    const char *stands_for;
    /* Each thread starts by freeing a block of the main thread, all of which lie side by side. */
    bool given_by_main;
};

/* Reads the arguments, runs, reports: all that main() has to do. Returns its exit status. */
int cache_line_main(const struct cache_line_shape *shape, int argc, char **argv);

#endif
