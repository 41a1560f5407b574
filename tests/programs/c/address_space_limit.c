/* Threads allocate until the address space that RLIMIT_AS leaves is used up: they must get NULL with
 * ENOMEM, keep what they had, and be able to allocate again once it is freed. Prints MiB obtained. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { THREADS = 4, MOST_BLOCKS = 1 << 20 };

static atomic_size_t obtained;
static pthread_barrier_t all_started, all_full, all_freed;

typedef struct link {
    struct link *next;
    size_t size;
} link_t;

static void *exhaust(void *argument) {
    static const size_t sizes[] = {100, 3000, 200000, 3000000};
    size_t size = sizes[(uintptr_t)argument % 4];
    pthread_barrier_wait(&all_started); /* the others' stacks need address space, too */
    for (int round = 0; round < 3; round++) {
        link_t *list = NULL;
        size_t count = 0;
        for (;;) {
            errno = 0;
            link_t *block = malloc(size);
            if (!block) {
                REQUIRE(errno == ENOMEM);
                break;
            }
            memset(block, 0x5a, size);
            *block = (link_t){.next = list, .size = size};
            list = block;
            count++;
            REQUIRE(count * size < ((size_t)1 << 32));
        }
        if (round == 0)
            atomic_fetch_add(&obtained, count * size);
        pthread_barrier_wait(&all_full);
        while (list) {
            link_t *next = list->next;
            REQUIRE(list->size == size && ((unsigned char *)list)[size - 1] == 0x5a);
            free(list);
            list = next;
        }
        pthread_barrier_wait(&all_freed);
        void *again = malloc(1000);
        REQUIRE(again != NULL);
        free(again);
        pthread_barrier_wait(&all_freed);
    }
    return NULL;
}

int main(void) {
    REQUIRE(pthread_barrier_init(&all_started, NULL, THREADS) == 0);
    REQUIRE(pthread_barrier_init(&all_full, NULL, THREADS) == 0);
    REQUIRE(pthread_barrier_init(&all_freed, NULL, THREADS) == 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, exhaust, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%zu\n", atomic_load(&obtained) >> 20);
    return 0;
}
