/* One thread writes the statistics that a signal (SIGUSR1) asks for to standard error, a small pipe that
 * nobody reads yet, and the process ends meanwhile. "ends" on standard output says so. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The pipe takes two pages, of which one is full from the start: a part of the statistics fits. */
#define FILLED_BYTES 4096

static void *write_statistics(void *unused) {
    REQUIRE(raise(SIGUSR1) == 0);
    for (;;) {
        void *p = malloc(100000);
        REQUIRE(p != NULL);
        free(p);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    int bytes = 0;
    REQUIRE(pthread_create(&thread, NULL, write_statistics, NULL) == 0);
    while (bytes <= FILLED_BYTES) {
        usleep(1000);
        REQUIRE(ioctl(STDERR_FILENO, FIONREAD, &bytes) == 0);
    }
    REQUIRE(write(STDOUT_FILENO, "ends\n", 5) == 5);
    return 0;
}
