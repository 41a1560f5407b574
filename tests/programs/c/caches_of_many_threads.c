/* Many threads, one after the other, use and free blocks of many sizes and fall asleep. Prints the kB over
 * the start that stay for as long as this program waits for less than MOST_KB, its first argument. */
#include "resident.h"

enum { THREADS = 200, BLOCKS = 200, MOST_BYTES = 28000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn; /* the number of the thread that may work */

static void wait_for_turn(int number) {
    pthread_mutex_lock(&mutex);
    while (turn != number)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void end_turn(int next) {
    pthread_mutex_lock(&mutex);
    turn = next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void *work_and_sleep(void *argument) {
    int number = (int)(intptr_t)argument;
    wait_for_turn(number);
    uint32_t random = (uint32_t)number + 1;
    void *mine[BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++)
            mine[i] = touched_block(16 + next_random(&random) % MOST_BYTES);
        for (int i = 0; i < BLOCKS; i++)
            free(mine[i]);
    }
    end_turn(number + 1);
    wait_for_turn(-1);
    return NULL;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    long most_kb = strtol(argv[1], NULL, 10);
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    REQUIRE(pthread_attr_setstacksize(&small_stack, 128 << 10) == 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], &small_stack, work_and_sleep, (void *)(intptr_t)(i + 1)) == 0);
    long start_kb = resident_kb();
    end_turn(1);
    wait_for_turn(THREADS + 1);
    long over_kb = resident_kb() - start_kb;
    for (int i = 0; i < PATIENCE_S * 20 && over_kb > most_kb; i++) {
        sleep_ms(50);
        over_kb = resident_kb() - start_kb;
    }
    printf("%ld\n", over_kb);
    end_turn(-1);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
}
