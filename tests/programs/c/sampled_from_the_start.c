/* Linked with the static library, and libc's: libc allocates before it is ready to be asked whose code is
 * where, and what it allocates is sampled. */
#include "check.h"

int main(void) {
    for (size_t i = 0; i < 100; i++) {
        void *block = malloc(1000);
        REQUIRE(block != NULL);
        fill_pattern(block, 1000, i);
        REQUIRE(has_pattern(block, 1000, i));
        free(block);
    }
    puts("sampled");
    return 0;
}
