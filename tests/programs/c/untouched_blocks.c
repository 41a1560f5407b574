/* Blocks of 1 MB, which stay untouched, until there are no more; prints MiB obtained. */
#include "check.h"

int main(void) {
    size_t count = 0;
    while (malloc(1000000) != NULL)
        count++;
    REQUIRE(errno == ENOMEM);
    printf("%zu\n", count * 1000000 >> 20);
    return 0;
}
