/* A timer interrupts allocating threads a thousand times a second; the handler itself does not
 * allocate. No interrupted operation may lose or double a block. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "alarms.h"
#include "churn.h"

enum { THREADS = 3, SIGNALS = 1000 };

static atomic_int signals;

static void on_timer(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void *churn_until_enough(void *argument) {
    churn_t churn;
    churn_start(&churn, (uint32_t)(uintptr_t)argument);
    while (atomic_load(&signals) < SIGNALS)
        churn_step(&churn);
    churn_end(&churn);
    return NULL;
}

int main(void) {
    begin_alarms(on_timer, 1000);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, churn_until_enough, (void *)(i + 1)) == 0);
    churn_until_enough((void *)99);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    puts("no block lost");
    return 0;
}
