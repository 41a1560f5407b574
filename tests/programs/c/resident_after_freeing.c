/* 64 MiB in use, and three times as much that was: prints the kB that stay over the start at once. */
#include "resident.h"

int main(void) {
    enum { BLOCK = 20000, LIVE = (64 << 20) / BLOCK, FREED = 3 * LIVE };
    memset(blocks, 0, (LIVE + FREED) * sizeof *blocks);
    long start_kb = resident_kb();
    for (int i = 0; i < LIVE + FREED; i++)
        blocks[i] = touched_block(BLOCK);
    for (int i = LIVE; i < LIVE + FREED; i++)
        free(blocks[i]);
    printf("%ld\n", resident_kb() - start_kb);
    return 0;
}
