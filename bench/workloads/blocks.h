/* Blocks of the heap, whose contents are verified if --verify asks for it. */
#ifndef HAKMEM_BENCH_BLOCKS_H
#define HAKMEM_BENCH_BLOCKS_H

#include "arguments.h"

#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks are at least this large: in each, bench_malloc() writes one word. */
#define BENCH_LEAST_BLOCK sizeof(uint64_t)

/* Fills the block with a pattern that follows from its address and size. */
void bench_fill(void *block, size_t size);

/* Ends the program if a filled block is not as bench_fill() left it when the block was at `address`. Returns
 * its size. */
size_t bench_check(void *block, const void *address);

/* Ends the program if not all of the block is zero. */
void bench_check_zero(const void *block, size_t size);

/* Makes a filled block invalid: if it has a second owner, that one's check fails. */
void bench_scrub(void *block);

void bench_out_of_memory(size_t size) __attribute__((noreturn));

/* malloc that cannot fail, of a block that --verify leaves alone: its contents are the program's own. */
static inline void *bench_malloc_own(size_t size) {
    void *block = malloc(size);
    if (__builtin_expect(block == NULL, 0)) {
        bench_out_of_memory(size);
    }
    return block;
}

/* malloc that cannot fail; the first word is written. */
static inline void *bench_malloc(size_t size) {
    uint64_t *block = (uint64_t *)bench_malloc_own(size);
    if (__builtin_expect(bench.verify, 0)) {
        bench_fill(block, size);
    } else {
        *block = size;
    }
    return block;
}

static inline void bench_free(void *block) {
    if (__builtin_expect(bench.verify, 0) && block != NULL) {
        bench_check(block, block);
        bench_scrub(block);
    }
    free(block);
}

/* calloc that cannot fail, of a block of `count` words. --verify finds them zero, and fills the block. */
static inline uint64_t *bench_calloc(size_t count) {
    uint64_t *block = (uint64_t *)calloc(count, sizeof *block);
    if (__builtin_expect(block == NULL, 0)) {
        bench_out_of_memory(count * sizeof *block);
    }
    if (__builtin_expect(bench.verify, 0)) {
        bench_check_zero(block, count * sizeof *block);
        bench_fill(block, count * sizeof *block);
    }
    return block;
}

/* realloc that cannot fail, to a size that is not less. The new part is not touched, unless --verify fills
 * it. */
void *bench_realloc(void *block, size_t size);

/* Writes one word in each page of the block. A no-op with --verify, which has filled it. */
void bench_touch_pages(void *block, size_t size);

/* Writes every byte of the block. A no-op with --verify, which has filled it. */
void bench_touch_all(void *block, size_t size);

#ifdef __cplusplus
}
#endif

#endif
