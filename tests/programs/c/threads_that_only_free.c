/* Threads that never allocate, and at their end, after their last destructor, free what libc keeps of earlier
 * ones. Prints kB resident. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

enum { BURSTS = 60, AT_ONCE = 16 };

static atomic_int running;

static void *do_nothing(void *unused) {
    (void)unused;
    usleep(1000);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_attr_t detached;
    REQUIRE(pthread_attr_init(&detached) == 0);
    REQUIRE(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
    for (int burst = 0; burst < BURSTS; burst++) {
        atomic_store(&running, AT_ONCE);
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&thread, &detached, do_nothing, NULL) == 0);
        while (atomic_load(&running) > 0)
            usleep(200);
    }
    printf("%ld\n", status_kb("VmRSS:"));
    return 0;
}
