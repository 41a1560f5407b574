/* A program that is not to wait for a page later has its free memory kept, and grows a buffer by realloc,
 * whose pages are moved because another block is behind it. Prints the page faults of as large a buffer, once
 * that was freed. */
#include <malloc.h>

#include "check.h"

static const size_t BYTES = (size_t)30 << 20;

int main(void) {
    REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    REQUIRE(mallopt(M_MMAP_MAX, 0) == 1);
    void *buffer = filled(malloc(BYTES), BYTES);
    void *behind[8];
    for (int i = 0; i < 8; i++) {
        behind[i] = filled(malloc(BYTES / 8), BYTES / 8);
    }
    free(filled(realloc(buffer, 2 * BYTES), 2 * BYTES));
    long before = minor_faults();
    buffer = filled(malloc(2 * BYTES), 2 * BYTES);
    printf("%ld\n", minor_faults() - before);
    for (int i = 0; i < 8; i++) {
        free(behind[i]);
    }
    free(buffer);
    return 0;
}
