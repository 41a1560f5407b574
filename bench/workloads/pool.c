#include "pool.h"

#include "resident.h"

struct pool pool_create(size_t capacity) {
    return (struct pool){.blocks = resident_table(capacity, sizeof(struct pool_block)), .capacity = capacity};
}

void pool_add(struct pool *pool, struct pool_block block) {
    if (pool->count == pool->capacity) {
        bench_fail("more than %zu blocks are live: the table is too small for these sizes", pool->capacity);
    }
    pool->blocks[pool->count++] = block;
    pool->live_bytes += block.size;
    pool->added++;
}

void pool_shrink(struct pool *pool, uint64_t bytes, struct bench_random *random) {
    while (pool->live_bytes > bytes) {
        size_t victim = bench_random_below(random, pool->count);
        struct pool_block block = pool->blocks[victim];
        pool->blocks[victim] = pool->blocks[--pool->count];
        pool->live_bytes -= block.size;
        bench_free(block.start);
    }
}
