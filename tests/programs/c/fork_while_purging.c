/* Forks while another thread gives free memory back: what that thread had in hand is free memory of
 * the child's too, which must be able to give it back itself and to use it again. */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "children.h"

/* The kept blocks stand between the free ones, so that the free memory is in many pieces. */
enum { FORKS = 30, BLOCKS = 48, FREE_BYTES = 1 << 20, KEPT_BYTES = 70000 };
/* Far less than the free memory, far more than the rest of the child needs. */
enum { MOST_RESIDENT_KB = BLOCKS * (FREE_BYTES / 1024) / 3 };

static atomic_bool purging, stop;

typedef struct blocks {
    void *kept[BLOCKS], *freed[BLOCKS];
} blocks_t;

static void *resident_block(size_t size) {
    void *block = malloc(size);
    REQUIRE(block != NULL);
    return memset(block, 1, size);
}

static void make_free_memory(blocks_t *blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks->freed[i] = resident_block(FREE_BYTES);
        blocks->kept[i] = resident_block(KEPT_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks->freed[i]);
}

static void *purging_thread(void *argument) {
    while (!atomic_load(&stop)) {
        blocks_t blocks;
        make_free_memory(&blocks);
        atomic_store(&purging, 1);
        malloc_trim(0);
        atomic_store(&purging, 0);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks.kept[i]);
    }
    return argument;
}

static void require_little_resident(const char *when) {
    long resident_kb = status_kb("RssAnon:");
    if (resident_kb >= MOST_RESIDENT_KB)
        dprintf(STDERR_FILENO, "%ld kB stay resident in the child %s\n", resident_kb, when);
    REQUIRE(resident_kb < MOST_RESIDENT_KB);
}

static void child(void) {
    malloc_trim(0);
    require_little_resident("at first");
    blocks_t blocks;
    make_free_memory(&blocks);
    malloc_trim(0);
    require_little_resident("after use");
}

int main(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, purging_thread, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        note("fork", i);
        while (!atomic_load(&purging))
            sched_yield();
        pid_t pid = fork();
        if (pid == 0) {
            /* The copy says what the thread was doing at that moment: outside malloc_trim it may have
             * had large blocks of its own, which nobody can free any more. */
            if (atomic_load(&purging))
                child();
            _exit(0);
        }
        require_good_end(pid);
    }
    atomic_store(&stop, 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("%d forks\n", FORKS);
    return 0;
}
