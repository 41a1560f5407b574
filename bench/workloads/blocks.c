#include "bench.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

void bench_out_of_memory(size_t size) {
    bench_fail("out of memory: no block of %zu bytes to be had; ask for a smaller working set", size);
}

/* A filled block starts with a word of its size (40 bits) and a check of address and size (24 bits), so that
 * it can be checked by whoever frees it, who need not know its size. Then follow words of an arithmetic
 * sequence whose start follows from the same two. Of two blocks that overlap, the one filled first fails its
 * check. */

#define SIZE_BITS 40
#define SEQUENCE_STEP 0x9e3779b97f4a7c15u

static uint64_t pattern_key(const void *address, size_t size) {
    struct bench_random random = {.state = (uint64_t)(uintptr_t)address * SEQUENCE_STEP + size};
    return bench_random_next(&random);
}

static uint64_t first_word(uint64_t key, size_t size) {
    return (key << SIZE_BITS) | size;
}

/* Whole words, then what remains of the last. */
static void fill_words(unsigned char *block, size_t from, size_t size, uint64_t key) {
    size_t at = from;
    for (; at + sizeof key <= size; at += sizeof key) {
        uint64_t word = key + at * SEQUENCE_STEP;
        memcpy(block + at, &word, sizeof word);
    }
    uint64_t last = key + at * SEQUENCE_STEP;
    memcpy(block + at, &last, size - at);
}

static _Noreturn void report_damage(const unsigned char *block, size_t size, size_t at, uint64_t expected) {
    unsigned char byte = 0;
    const unsigned char *bytes = (const unsigned char *)&expected;
    for (size_t i = 0; i < sizeof expected && at + i < size; i++) {
        byte = bytes[i];
        if (block[at + i] != byte) {
            at += i;
            break;
        }
    }
    bench_fail("damaged block: %p of %zu bytes: byte %zu is 0x%02x instead of 0x%02x", (const void *)block,
               size, at, block[at], byte);
}

static void check_words(const unsigned char *block, size_t from, size_t size, uint64_t key) {
    size_t at = from;
    for (; at + sizeof key <= size; at += sizeof key) {
        uint64_t word;
        memcpy(&word, block + at, sizeof word);
        if (word != key + at * SEQUENCE_STEP) {
            report_damage(block, size, at, key + at * SEQUENCE_STEP);
        }
    }
    uint64_t last = key + at * SEQUENCE_STEP;
    if (memcmp(block + at, &last, size - at) != 0) {
        report_damage(block, size, at, last);
    }
}

void bench_fill(void *block, size_t size) {
    size_t alignment = size < 16 ? 8 : 16;
    if ((uintptr_t)block % alignment != 0) {
        bench_fail("misaligned block: %p of %zu bytes must be aligned to %zu", block, size, alignment);
    }
    uint64_t key = pattern_key(block, size);
    uint64_t first = first_word(key, size);
    memcpy(block, &first, sizeof first);
    fill_words(block, sizeof first, size, key);
}

static void plant_damage(unsigned char *block, size_t size) {
    static atomic_flag planted = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&planted)) {
        block[size - 1] ^= 1;
    }
}

static size_t check_contents(void *block, const void *address) {
    uint64_t first;
    memcpy(&first, block, sizeof first);
    size_t size = first & (((uint64_t)1 << SIZE_BITS) - 1);
    uint64_t key = pattern_key(address, size);
    if (first != first_word(key, size)) {
        bench_fail("damaged block: %p: its first word is 0x%016" PRIx64
                   ", which was not written there, or the block was handed out twice",
                   block, first);
    }
    check_words(block, sizeof first, size, key);
    return size;
}

size_t bench_check(void *block, const void *address) {
    size_t size = check_contents(block, address);
    if (bench.plant_damage) {
        plant_damage(block, size);
        check_contents(block, address);
    }
    return size;
}

void bench_check_zero(const void *block, size_t size) {
    const unsigned char *bytes = block;
    for (size_t at = 0; at < size; at++) {
        if (bytes[at] != 0) {
            bench_fail("damaged block: %p of %zu bytes: byte %zu is 0x%02x, and calloc promises 0", block,
                       size, at, bytes[at]);
        }
    }
}

void bench_scrub(void *block) {
    memset(block, 0xdb, BENCH_LEAST_BLOCK);
}

void *bench_realloc(void *block, size_t size) {
    if (block == NULL) {
        return bench_malloc(size);
    }
    if (bench.verify) {
        bench_check(block, block);
    }
    /* As a number: the address is still wanted after the block may have moved. */
    uintptr_t address = (uintptr_t)block;
    void *moved = realloc(block, size);
    if (moved == NULL) {
        bench_out_of_memory(size);
    }
    if (bench.verify) {
        bench_check(moved, (const void *)address);
        bench_fill(moved, size);
    }
    return moved;
}

void bench_touch_pages(void *block, size_t size) {
    if (bench.verify) {
        return;
    }
    volatile unsigned char *bytes = block;
    for (size_t at = 0; at < size; at += 4096) {
        bytes[at] = 1;
    }
}

void bench_touch_all(void *block, size_t size) {
    if (!bench.verify) {
        memset(block, 1, size);
    }
}
