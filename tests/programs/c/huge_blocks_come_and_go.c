/* Two huge blocks, each of a region of its own, are exchanged in turn, many more times than regions would
 * find places if each went to another one. */
#include "check.h"

enum { TURNS = 20000, BYTES = 300 << 20 };

int main(void) {
    char *blocks[2] = {NULL, NULL};
    for (unsigned i = 0; i < TURNS; i++) {
        free(blocks[i % 2]);
        blocks[i % 2] = malloc(BYTES);
        REQUIRE(blocks[i % 2] != NULL);
        if (i % 1000 < 2)
            blocks[i % 2][BYTES - 1] = 1;
    }
    free(blocks[0]);
    free(blocks[1]);
    return 0;
}
