/* Children of vfork run in the parent's memory under another process id, while the parent's other threads go
 * on. */
#include "churn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 200, THREADS = 2, STEPS_IN_CHILD = 200 };

static atomic_int done;

static void *churn_until_done(void *seed) {
    churn_t churn;
    churn_start(&churn, (uint32_t)(uintptr_t)seed);
    while (!atomic_load(&done))
        churn_step(&churn);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, churn_until_done, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        usleep(2000); /* the live page is written now and then */
        pid_t child = vfork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (int k = 0; k < STEPS_IN_CHILD; k++)
                free(malloc(16 + (size_t)k * 100));
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&done, 1);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    puts("done");
    return 0;
}
