/* Locks all its memory, present and future, and forks a child, whose memory is not locked. Prints by how much
 * the child has grown, in MiB, when it has taken and freed many blocks. */
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

int main(void) {
    int status = -1;
    REQUIRE(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 || errno == ENOMEM || errno == EPERM); /* a limit */
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        long start = status_kb("VmRSS:");
        take_and_free();
        printf("%ld\n", (status_kb("VmRSS:") - start) >> 10);
        return 0;
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
