/* Thread-specific destructors that allocate and free in every round that POSIX allows, after the
 * library's own destructor may already have run. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { KEYS = 6, THREADS = 400, AT_ONCE = 8, ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS };

typedef struct value {
    size_t key, round, size;
    unsigned char *bytes;
} value_t;

static pthread_key_t keys[KEYS];
static atomic_long destroyed;

static value_t *make_value(size_t key, size_t round) {
    value_t *value = malloc(sizeof *value);
    REQUIRE(value != NULL);
    *value = (value_t){.key = key, .round = round, .size = 1 + (key + 1) * (round + 1) * 1500};
    value->bytes = malloc(value->size);
    REQUIRE(value->bytes != NULL);
    fill_pattern(value->bytes, value->size, key + round);
    return value;
}

static void destroy(void *argument) {
    value_t *value = argument;
    size_t key = value->key, round = value->round;
    REQUIRE(has_pattern(value->bytes, value->size, key + round));
    value->bytes = realloc(value->bytes, value->size * 2);
    REQUIRE(value->bytes != NULL);
    REQUIRE(has_pattern(value->bytes, value->size, key + round));
    free(value->bytes);
    free(value);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *zeroed = calloc(1, size);
        REQUIRE(zeroed != NULL && zeroed[0] == 0 && zeroed[size - 1] == 0);
        memset(zeroed, 0xee, size);
        free(zeroed);
    }
    atomic_fetch_add(&destroyed, 1);
    if (round + 1 < ROUNDS)
        REQUIRE(pthread_setspecific(keys[key], make_value(key, round + 1)) == 0);
}

static void *thread_main(void *argument) {
    (void)argument;
    for (size_t key = 0; key < KEYS; key++)
        REQUIRE(pthread_setspecific(keys[key], make_value(key, 0)) == 0);
    return NULL;
}

int main(void) {
    for (int i = 0; i < KEYS; i++)
        REQUIRE(pthread_key_create(&keys[i], destroy) == 0);
    for (int batch = 0; batch < THREADS / AT_ONCE; batch++) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&threads[i], NULL, thread_main, NULL) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    printf("%ld of %d values destroyed\n", atomic_load(&destroyed), KEYS * THREADS * ROUNDS);
    return atomic_load(&destroyed) == (long)KEYS * THREADS * ROUNDS ? 0 : 1;
}
