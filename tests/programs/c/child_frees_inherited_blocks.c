/* Forks while threads pass blocks around: each child frees all that it inherited, whose threads are
 * gone, has everything given back and then starts threads that allocate from the same slabs. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "children.h"

enum { PASSING_THREADS = 4, CHILD_THREADS = 6, SLOTS = 400, HELD = 64, STEPS = 2000, FORKS = 300 };

/* The slabs of this size hold few blocks, so each is often full, empty and in another's hands. */
enum { BLOCK_BYTES = 16384 };

/* Marked at both ends with its own address and slot: a block with two owners loses its marks. */
typedef struct block {
    uint64_t first;
    unsigned char rest[BLOCK_BYTES - 2 * sizeof(uint64_t)];
    uint64_t last;
} block_t;

static block_t *_Atomic slots[SLOTS];
static pthread_barrier_t all_started;

static uint64_t mark_of(const block_t *block, size_t slot) {
    return (uint64_t)(uintptr_t)block * 0x9E3779B97F4A7C15u ^ slot;
}

static block_t *make_block(size_t slot) {
    block_t *block = malloc(sizeof *block);
    REQUIRE(block != NULL);
    block->first = block->last = mark_of(block, slot);
    return block;
}

static void drop_block(block_t *block, size_t slot) {
    if (!block)
        return;
    REQUIRE(block->first == mark_of(block, slot) && block->last == block->first);
    free(block);
}

static void *passing_thread(void *argument) {
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (;;) {
        size_t slot = next_random(&random) % SLOTS;
        block_t *taken = atomic_exchange(&slots[slot], NULL);
        if (!taken)
            taken = atomic_exchange(&slots[slot], make_block(slot));
        drop_block(taken, slot);
    }
    return NULL;
}

static void *child_thread(void *argument) {
    uint32_t random = (uint32_t)(uintptr_t)argument;
    block_t *held[HELD] = {NULL};
    /* Each thread takes over a heap of its own before any of them goes on. */
    free(malloc(100));
    pthread_barrier_wait(&all_started);
    for (int i = 0; i < STEPS; i++) {
        size_t slot = next_random(&random) % HELD;
        block_t *old = held[slot];
        held[slot] = old ? NULL : make_block(slot);
        drop_block(old, slot);
    }
    for (size_t slot = 0; slot < HELD; slot++)
        drop_block(held[slot], slot);
    return NULL;
}

static void child(void) {
    for (size_t slot = 0; slot < SLOTS; slot++)
        drop_block(atomic_exchange(&slots[slot], NULL), slot);
    malloc_trim(0);
    REQUIRE(pthread_barrier_init(&all_started, NULL, CHILD_THREADS) == 0);
    pthread_t threads[CHILD_THREADS];
    for (uintptr_t i = 0; i < CHILD_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, child_thread, (void *)(i + 77)) == 0);
    for (int i = 0; i < CHILD_THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    for (uintptr_t i = 0; i < PASSING_THREADS; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, passing_thread, (void *)(i + 1)) == 0);
        REQUIRE(pthread_detach(thread) == 0);
    }
    for (int i = 0; i < FORKS; i++) {
        note("fork", i);
        pid_t pid = fork();
        if (pid == 0) {
            child();
            _exit(0);
        }
        require_good_end(pid);
    }
    printf("%d forks\n", FORKS);
    return 0;
}
