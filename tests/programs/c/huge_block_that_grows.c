/* A huge block, each time a MiB larger than the one before, which is gone: what the limit leaves must serve
 * the last as well as the first. Prints how many MiB it had in the end. */
#include "check.h"

int main(void) {
    size_t mib = 3;
    for (;; mib++) {
        errno = ENOENT;
        char *block = malloc(mib << 20);
        if (!block)
            break;
        REQUIRE(errno != 0); /* which no function of C's may make it */
        block[(mib << 20) - 1] = 1;
        free(block);
    }
    printf("%zu\n", mib);
    return 0;
}
