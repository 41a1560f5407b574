/* Live blocks of many sizes, of which random ones are freed: a table outside the heap that knows how many
 * bytes the program has in use. */
#ifndef HAKMEM_BENCH_POOL_H
#define HAKMEM_BENCH_POOL_H

#include "bench.h"

struct pool_block {
    void *start;
    size_t size;
};

struct pool {
    struct pool_block *blocks;
    size_t count;
    size_t capacity;
    uint64_t live_bytes; /* the sizes that were asked for */
    uint64_t added;      /* blocks, since it was created */
};

struct pool pool_create(size_t capacity);

/* Takes over a block; all of it must have been touched, since it counts as live. */
void pool_add(struct pool *pool, struct pool_block block);

/* Frees random blocks until at most `bytes` are live. */
void pool_shrink(struct pool *pool, uint64_t bytes, struct bench_random *random);

#endif
