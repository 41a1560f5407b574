/* Takes and frees blocks of one size, and of all sizes to 112 bytes, some thousand times, in some
 * milliseconds. */
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, BLOCKS = 500 };

static void *blocks[BLOCKS];

static void use_blocks(size_t most, size_t step) {
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 16 + i * step % most;
        blocks[i] = malloc(bytes);
        memset(blocks[i], 1, bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i * 7 % BLOCKS]); /* 7 does not divide it: each once, in no order of addresses */
    }
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        use_blocks(1, 0);
        use_blocks(112, 16);
    }
    return 0;
}
