/* Takes 100 MB, drops half, takes 200 MB more, drops every second block, and sleeps: prints the kB over what
 * it holds, and an eighth of that, which stay. */
#include "resident.h"

int main(void) {
    enum { BLOCK = 200000, FIRST = 500, ALL = 1500, HELD_KB = ALL / 2 * (BLOCK / 1000) };
    memset(blocks, 0, ALL * sizeof *blocks);
    long start_kb = resident_kb();
    for (int i = 0; i < FIRST; i++)
        blocks[i] = touched_block(BLOCK);
    for (int i = FIRST / 2; i < FIRST; i++)
        free(blocks[i]);
    for (int i = FIRST / 2; i < ALL; i++)
        blocks[i] = touched_block(BLOCK);
    for (int i = 0; i < ALL; i += 2)
        free(blocks[i]);
    printf("%ld\n", idle_until_little_is_left(start_kb + HELD_KB + HELD_KB / 8));
    return 0;
}
