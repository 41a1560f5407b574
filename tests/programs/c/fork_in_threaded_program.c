/* Forks again and again, from the main thread and from others, while threads allocate: each child
 * must be able to allocate and free at once, also blocks that its parent's other threads made. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "churn.h"

enum { CHURNING_THREADS = 4, FORKING_THREADS = 2, FORKS_EACH = 60, CHILD_STEPS = 400, SHARED_BLOCKS = 256 };

static atomic_bool stop;
static void *shared_blocks[SHARED_BLOCKS];
static pthread_barrier_t shared_ready;

static void *churning_thread(void *argument) {
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    for (size_t i = seed; i < SHARED_BLOCKS; i += CHURNING_THREADS) {
        shared_blocks[i] = malloc(16 + i * 40);
        REQUIRE(shared_blocks[i] != NULL);
        fill_pattern(shared_blocks[i], 16 + i * 40, i);
    }
    pthread_barrier_wait(&shared_ready);
    churn_t churn;
    churn_start(&churn, seed + 1);
    while (!atomic_load(&stop))
        churn_step(&churn);
    churn_end(&churn);
    return NULL;
}

static void *child_thread(void *argument) {
    churn_run((uint32_t)(uintptr_t)argument, CHILD_STEPS);
    return NULL;
}

static void child(uint32_t seed) {
    for (size_t i = 0; i < SHARED_BLOCKS; i++) {
        REQUIRE(has_pattern(shared_blocks[i], 16 + i * 40, i));
        free(shared_blocks[i]);
    }
    child_thread((void *)(uintptr_t)seed);
    /* A thread and a grandchild of the child: what the fork handlers repaired must be usable twice. */
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, child_thread, (void *)(uintptr_t)(seed + 1)) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    if (seed % 8 == 0) {
        pid_t grandchild = fork();
        REQUIRE(grandchild >= 0);
        if (grandchild == 0) {
            child_thread((void *)(uintptr_t)(seed + 2));
            _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    }
}

static void *forking_thread(void *argument) {
    uint32_t base = (uint32_t)(uintptr_t)argument * 1000 + 17;
    for (uint32_t i = 0; i < FORKS_EACH; i++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            child(base + i);
            _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        REQUIRE(status == 0);
    }
    return NULL;
}

int main(void) {
    REQUIRE(pthread_barrier_init(&shared_ready, NULL, CHURNING_THREADS + 1) == 0);
    pthread_t churning[CHURNING_THREADS], forking[FORKING_THREADS];
    for (uintptr_t i = 0; i < CHURNING_THREADS; i++)
        REQUIRE(pthread_create(&churning[i], NULL, churning_thread, (void *)i) == 0);
    pthread_barrier_wait(&shared_ready);
    for (uintptr_t i = 0; i < FORKING_THREADS; i++)
        REQUIRE(pthread_create(&forking[i], NULL, forking_thread, (void *)(i + 1)) == 0);
    forking_thread((void *)0);
    for (int i = 0; i < FORKING_THREADS; i++)
        REQUIRE(pthread_join(forking[i], NULL) == 0);
    atomic_store(&stop, 1);
    for (int i = 0; i < CHURNING_THREADS; i++)
        REQUIRE(pthread_join(churning[i], NULL) == 0);
    for (size_t i = 0; i < SHARED_BLOCKS; i++) {
        REQUIRE(has_pattern(shared_blocks[i], 16 + i * 40, i));
        free(shared_blocks[i]);
    }
    printf("%d children\n", FORKS_EACH * (FORKING_THREADS + 1));
    return 0;
}
