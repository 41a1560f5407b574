/* An ordinary C program with threads: linked fully static, or with the shared library as a plain dependency,
 * the whole malloc family must be HAKMEM's. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

enum { THREADS = 4, ROUNDS = 20000, HELD = 100 };

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "malloc_family: broken: %s\n", what);
        exit(1);
    }
}

static uint64_t live_blocks(void) {
    hak_stats_t stats;
    hak_tiny_magazine_flush_all();
    hak_stats_get(&stats);
    return stats.live_blocks;
}

static void standard_names_are_hakmem(void) {
    void *blocks[HELD];
    const uint64_t before = live_blocks();
    for (size_t i = 0; i < HELD; i++) {
        blocks[i] = malloc(i * 100);
        expect(blocks[i] != NULL, "malloc gives a block");
        expect(malloc_usable_size(blocks[i]) == hak_good_size(i * 100), "malloc_usable_size is HAKMEM's");
    }
    expect(live_blocks() == before + HELD, "every malloc is a block of HAKMEM's");
    for (size_t i = 0; i < HELD; i++) {
        if (i % 2 == 0) {
            free(blocks[i]);
        } else {
            hak_free(blocks[i]);
        }
    }
    expect(live_blocks() == before, "every free reaches HAKMEM");
}

static void every_function_of_the_family_works(void) {
    char *block = calloc(100, 10);
    expect(block != NULL && block[0] == 0 && block[999] == 0, "calloc gives zeroes");
    memcpy(block, "kept", 5);
    block = realloc(block, 100000);
    expect(block != NULL && strcmp(block, "kept") == 0, "realloc keeps contents");
    block = reallocarray(block, 1000, 5000);
    expect(block != NULL && strcmp(block, "kept") == 0, "reallocarray keeps contents");
    free(block);

    void *aligned = NULL;
    expect(posix_memalign(&aligned, 4096, 100) == 0 && (uintptr_t)aligned % 4096 == 0,
           "posix_memalign aligns");
    free(aligned);
    aligned = aligned_alloc(256, 512);
    expect(aligned != NULL && (uintptr_t)aligned % 256 == 0, "aligned_alloc aligns");
    free(aligned);
    aligned = memalign(64, 10);
    expect(aligned != NULL && (uintptr_t)aligned % 64 == 0, "memalign aligns");
    free(aligned);
    free(NULL);

    char *text = strdup("libc's own allocations");
    expect(text != NULL && hak_usable_size(text) >= strlen(text) + 1, "strdup allocates from HAKMEM");
    free(text);

    volatile size_t impossible = SIZE_MAX;
    errno = 0;
    expect(malloc(impossible) == NULL && errno == ENOMEM, "an impossible size gives ENOMEM");
}

static void *hammer(void *argument) {
    unsigned char *blocks[HELD] = {NULL};
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned char **slot = &blocks[(random >> 8) % HELD];
        const size_t size = 1 + (random >> 16) % 3000;
        if (*slot != NULL) {
            expect(**slot == (unsigned char)(slot - blocks), "a block keeps its contents");
            free(*slot);
        }
        *slot = malloc(size);
        expect(*slot != NULL, "malloc gives a block to a thread");
        memset(*slot, (int)(slot - blocks), size);
    }
    for (size_t i = 0; i < HELD; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void threads_allocate(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        expect(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)) == 0, "a thread starts");
    }
    for (size_t i = 0; i < THREADS; i++) {
        expect(pthread_join(threads[i], NULL) == 0, "a thread ends");
    }
}

int main(void) {
    standard_names_are_hakmem();
    every_function_of_the_family_works();
    threads_allocate();
    puts("malloc_family: fine");
    return 0;
}
