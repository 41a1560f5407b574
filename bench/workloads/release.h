/* Asks the allocator, whichever it is, to give back what it keeps, as programs written for it do. */
#ifndef HAKMEM_BENCH_RELEASE_H
#define HAKMEM_BENCH_RELEASE_H

#include <stdbool.h>

/* By a function of the allocator's own, called once, by the calling thread; false if it has none that is
 * known here. */
bool release_memory(void);

#endif
