/* Holds LIVE bytes in large blocks, builds as much in small ones and drops these in no order: prints the kB
 * over LIVE that stay. */
#include "resident.h"

enum { LIVE = 160 << 20, LARGE = 16 << 20, LEAST = 16, MOST = 400 };

int main(void) {
    long start_kb = resident_kb();
    for (size_t bytes = 0; bytes < LIVE; bytes += LARGE)
        touched_block(LARGE);
    uint32_t random = 1;
    size_t count = 0;
    for (size_t bytes = 0; bytes < LIVE; count++) {
        size_t size = LEAST + next_random(&random) % (MOST - LEAST);
        blocks[count] = touched_block(size);
        bytes += size;
    }
    for (size_t left = count; left > 0; left--) {
        size_t i = next_random(&random) % left;
        free(blocks[i]);
        blocks[i] = blocks[left - 1];
    }
    memset(blocks, 0, count * sizeof *blocks);
    printf("%ld\n", resident_kb() - start_kb - LIVE / 1024 - (long)(count * sizeof *blocks / 1024));
    return 0;
}
