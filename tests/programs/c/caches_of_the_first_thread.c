/* The first thread uses and frees blocks of many sizes, makes another one, and waits for it: that uses one
 * block, and prints the kB over the start that stay. */
#include "resident.h"

static void *measure(void *start_kb) {
    free(touched_block(100));
    printf("%ld\n", idle_until_little_is_left(*(long *)start_kb));
    return NULL;
}

int main(void) {
    enum { BLOCKS = 2000, MOST = 28000 };
    memset(blocks, 0, BLOCKS * sizeof *blocks);
    long start_kb = resident_kb();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = touched_block(16 + (size_t)i * 7919 % MOST);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    pthread_t other;
    REQUIRE(pthread_create(&other, NULL, measure, &start_kb) == 0);
    pthread_join(other, NULL);
}
