/* One thread trims while others allocate, all the time: prints the kB over the start that stay. */
#include "resident.h"

enum { THREADS = 4, STEPS = 60000 };
static atomic_int busy = THREADS;

static void *allocating(void *argument) {
    churn_run((uint32_t)(uintptr_t)argument, STEPS);
    atomic_fetch_sub(&busy, 1);
    return NULL;
}

static void *trimming(void *argument) {
    while (atomic_load(&busy) > 0) {
        malloc_trim(0);
        sched_yield();
    }
    return argument;
}

int main(void) {
    pthread_t threads[THREADS + 1];
    long start_kb = resident_kb();
    for (uintptr_t i = 0; i <= THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, i < THREADS ? allocating : trimming, (void *)(i + 1)) == 0);
    for (int i = 0; i <= THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%ld\n", idle_until_little_is_left(start_kb));
    return 0;
}
