/* Forks while other threads allocate, and write statistics for a signal in the middle of that: in the heap
 * for all that serves a thread once its own is gone, and in that of sampled blocks. What each of the three
 * holds the others wait for, so that they must want it in one order. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "children.h"

enum { FORKS = 400, BLOCKS = 2000 };

static atomic_bool ends;
static pthread_key_t key;

static void allocate(void) {
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(8000 + i % 8 * 3000);
        REQUIRE(blocks[i] != NULL);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* In the second round of destructors the thread's heap has been taken from it. */
static void allocate_at_last(void *round) {
    static int second;
    if (round == &second)
        allocate();
    else
        REQUIRE(pthread_setspecific(key, &second) == 0);
}

static void *thread_that_ends(void *unused) {
    (void)unused;
    static int first;
    free(malloc(10));
    REQUIRE(pthread_setspecific(key, &first) == 0);
    return NULL;
}

static void *allocating_threads(void *unused) {
    (void)unused;
    while (!atomic_load(&ends)) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, thread_that_ends, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        allocate();
    }
    return NULL;
}

static void *signalling_thread(void *unused) {
    (void)unused;
    while (!atomic_load(&ends)) {
        REQUIRE(kill(getpid(), SIGUSR1) == 0);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    REQUIRE(pthread_key_create(&key, allocate_at_last) == 0);
    REQUIRE(pthread_create(&threads[0], NULL, allocating_threads, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, signalling_thread, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        require_good_end(pid);
    }
    atomic_store(&ends, 1);
    for (size_t i = 0; i < 2; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%d forks\n", FORKS);
    return 0;
}
