/* 100,000 short threads (or as many as the argument says), a few at a time, each of which allocates, hands
 * one block to the next and frees the rest. Prints the highest resident size seen, in kB. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 100000, AT_ONCE = 8, BLOCKS = 40, SAMPLE_EVERY = 250 };

static void *handed_over[AT_ONCE];

static void *short_thread(void *argument) {
    size_t lane = (size_t)(uintptr_t)argument;
    free(handed_over[lane]);
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i % 10 == 9 ? 3000 * i : 16 + 24 * i;
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        fill_pattern(blocks[i], size < 64 ? size : 64, i + lane);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        REQUIRE(has_pattern(blocks[i], i == 0 ? 16 : 32, i + lane));
    for (size_t i = 1; i < BLOCKS; i++)
        free(blocks[i]);
    handed_over[lane] = blocks[0];
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : THREADS;
    long highest_kb = 0;
    for (int round = 0; round < count / AT_ONCE; round++) {
        pthread_t threads[AT_ONCE];
        for (uintptr_t i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&threads[i], NULL, short_thread, (void *)i) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        if (round % SAMPLE_EVERY == 0) {
            long now = status_kb("VmRSS:");
            highest_kb = now > highest_kb ? now : highest_kb;
        }
    }
    for (int i = 0; i < AT_ONCE; i++)
        free(handed_over[i]);
    printf("%ld\n", highest_kb);
    return 0;
}
