/* Locks all its memory, present and future, and prints by how much more than its blocks it grows, in MiB:
 * while it has them, and after it has freed them and trimmed. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

#define BLOCKS 200
#define BYTES ((size_t)200 << 10)

static long resident_bytes(void) {
    return status_kb("VmRSS:") << 10;
}

int main(void) {
    static void *blocks[BLOCKS], *huge[BLOCKS / 20];
    long live = 0;
    free(malloc(1));
    long start = resident_bytes();
    REQUIRE(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 || errno == ENOMEM || errno == EPERM); /* a limit */
    long locked = resident_bytes() - start;
    for (size_t i = 0; i < BLOCKS; i++) {
        REQUIRE((blocks[i] = malloc(BYTES)) != NULL);
        memset(blocks[i], 1, BYTES);
        live += (long)BYTES;
    }
    for (size_t i = 0; i < BLOCKS / 20; i++) {
        REQUIRE((huge[i] = malloc(16 * BYTES)) != NULL);
        memset(huge[i], 1, 16 * BYTES);
        live += (long)(16 * BYTES);
    }
    long with_blocks = resident_bytes() - start - live;
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS / 20; i++) {
        free(huge[i]);
    }
    malloc_trim(0);
    printf("%ld %ld %ld\n", locked >> 20, with_blocks >> 20, (resident_bytes() - start) >> 20);
    return 0;
}
