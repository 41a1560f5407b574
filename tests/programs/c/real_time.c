/* Does what real-time programs do to have no page fault later: locks its memory, has free memory kept, and
 * takes and frees once as much as it will need. Prints the page faults of doing that again, and again after a
 * while in which other threads might have given memory back. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define BLOCKS 200
#define LONGER_THAN_DECAY_S 2

static void take_and_free(void) {
    static void *blocks[3][BLOCKS];
    static const size_t bytes[3] = {1000, 30000, 300000};
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            REQUIRE((blocks[kind][i] = malloc(bytes[kind])) != NULL);
            memset(blocks[kind][i], 1, bytes[kind]);
        }
    }
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[kind][i]);
        }
    }
}

static void *nothing(void *unused) {
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    if (argc > 1 && strcmp(argv[1], "ask") == 0) {
        REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
        REQUIRE(mallopt(M_MMAP_MAX, 0) == 1);
    } else if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        REQUIRE(errno == ENOMEM || errno == EPERM); /* a limit: then no program can */
        puts("0 0");
        return 0;
    }
    take_and_free();
    long before = minor_faults();
    take_and_free();
    long at_once = minor_faults() - before;
    sleep(LONGER_THAN_DECAY_S);
    before = minor_faults();
    take_and_free();
    printf("%ld %ld\n", at_once, minor_faults() - before);
    return 0;
}
