/* A thousand threads, of which each leaves blocks to a later one: prints the kB over the start that stay. */
#include "resident.h"

enum { THREADS = 1000, AT_ONCE = 50, KEPT = 20, STEPS = 300 };

/* What a thread leaves to the one that follows it, which checks and frees it. */
typedef struct legacy {
    void *block;
    size_t size, tag;
} legacy_t;
static legacy_t legacies[AT_ONCE][KEPT];

static void take_over(legacy_t *legacy) {
    for (int i = 0; i < KEPT; i++)
        if (legacy[i].block) {
            REQUIRE(has_pattern(legacy[i].block, legacy[i].size, legacy[i].tag));
            free(legacy[i].block);
            legacy[i].block = NULL;
        }
}

static void *short_lived(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    legacy_t *legacy = legacies[number % AT_ONCE];
    take_over(legacy);
    churn_t churn;
    churn_start(&churn, (uint32_t)number + 1);
    for (int step = 0; step < STEPS; step++)
        churn_step(&churn);
    for (int i = 0; i < KEPT; i++) {
        legacy[i] = (legacy_t){NULL, 1 + next_random(&churn.random) % (i % 5 == 0 ? 70000 : 1000), number};
        legacy[i].block = malloc(legacy[i].size);
        REQUIRE(legacy[i].block != NULL);
        fill_pattern(legacy[i].block, legacy[i].size, number);
    }
    churn_end(&churn);
    return NULL;
}

int main(void) {
    pthread_t threads[AT_ONCE];
    long start_kb = resident_kb();
    for (uintptr_t number = 0; number < THREADS + AT_ONCE; number++) {
        if (number >= AT_ONCE)
            REQUIRE(pthread_join(threads[number % AT_ONCE], NULL) == 0);
        if (number < THREADS)
            REQUIRE(pthread_create(&threads[number % AT_ONCE], NULL, short_lived, (void *)number) == 0);
    }
    for (int i = 0; i < AT_ONCE; i++)
        take_over(legacies[i]);
    printf("%ld\n", idle_until_little_is_left(start_kb));
    return 0;
}
