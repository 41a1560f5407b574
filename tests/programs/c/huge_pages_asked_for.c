/* Asks for huge pages in huge blocks of its own, and frees them: blocks that come to lie there, of which
 * little is used, take little. Prints how many KiB they take. */
#include <malloc.h>
#include <sys/mman.h>

#include "check.h"

enum { BLOCKS = 50 };

static const size_t ASKING_BYTES = ((size_t)4 << 20) + 4096;
static const size_t OTHER_BYTES = (size_t)3 << 20;
static const size_t STRIDE_BYTES = (size_t)512 << 10;

int main(void) {
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(ASKING_BYTES);
        REQUIRE(blocks[i] != NULL);
        REQUIRE(madvise((void *)((uintptr_t)blocks[i] & ~(uintptr_t)4095), ASKING_BYTES, MADV_HUGEPAGE) == 0);
        memset(blocks[i], 1, ASKING_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    malloc_trim(0);
    long before_kb = status_kb("VmRSS:");
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(OTHER_BYTES);
        REQUIRE(blocks[i] != NULL);
        for (size_t at = 0; at < OTHER_BYTES; at += STRIDE_BYTES)
            blocks[i][at] = 1;
    }
    printf("%ld\n", status_kb("VmRSS:") - before_kb);
    return 0;
}
