/* Locks all its memory, present and future, and forks a child, whose memory is not locked. Prints by how much
 * the child has grown, in MiB, when it has taken large blocks of which it uses next to nothing, and when it
 * has taken and freed many that it fills. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define BLOCKS 1000
#define BYTES 60000

static void take_and_free(void) {
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        REQUIRE((blocks[i] = malloc(BYTES)) != NULL);
        memset(blocks[i], 1, BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

static void take_large_ones(void) {
    for (size_t i = 0; i < 8; i++) {
        char *block = calloc(8 << 20, 1);
        REQUIRE(block != NULL);
        block[0] = 1;
    }
}

int main(void) {
    int status = -1;
    REQUIRE(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 || errno == ENOMEM || errno == EPERM); /* a limit */
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        long start = status_kb("VmRSS:");
        take_large_ones();
        printf("%ld ", (status_kb("VmRSS:") - start) >> 10);
        take_and_free();
        printf("%ld\n", (status_kb("VmRSS:") - start) >> 10);
        return 0;
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
