/* Gives memory back while another thread writes statistics to standard error, a small pipe that nobody reads
 * yet. "waits" on standard output says that it waits for them. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <malloc.h>

/* The pipe takes two pages, of which one is full from the start: a part of the statistics fits. */
#define FILLED_BYTES 4096

static atomic_int trimming; /* the number of the thread */

static void *write_statistics(void *unused) {
    for (;;) {
        void *p = malloc(100000);
        REQUIRE(p != NULL);
        free(p);
    }
    return unused;
}

static void *trim(void *unused) {
    atomic_store(&trimming, (int)syscall(SYS_gettid));
    for (;;) {
        malloc_trim(0);
    }
    return unused;
}

static int naps(int thread) {
    char path[64];
    int call = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    int found = fscanf(file, "%d", &call);
    fclose(file);
    return found == 1 && call == SYS_nanosleep;
}

int main(void) {
    pthread_t threads[2];
    int bytes = 0;
    alarm(60);
    REQUIRE(pthread_create(&threads[0], NULL, write_statistics, NULL) == 0);
    while (bytes <= FILLED_BYTES) {
        usleep(1000);
        REQUIRE(ioctl(STDERR_FILENO, FIONREAD, &bytes) == 0);
    }
    REQUIRE(pthread_create(&threads[1], NULL, trim, NULL) == 0);
    while (atomic_load(&trimming) == 0 || !naps(atomic_load(&trimming))) {
    }
    REQUIRE(write(STDOUT_FILENO, "waits\n", 6) == 6);
    return 0;
}
