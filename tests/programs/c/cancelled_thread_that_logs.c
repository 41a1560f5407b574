/* Cancels threads that are allocating while each fall-back is logged. The functions of malloc are no
 * cancellation points, so each call must come back, with no lock held, and only then the thread end.
 * Built with -rdynamic, the program's own madvise and mremap come before libc's. */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

extern void *__libc_malloc(size_t size);

enum { BLOCK_BYTES = 8 << 20, FOREIGN_BYTES = 3000, ROUNDS = 5 };

static int calls_came_back;

/* Purging and moving fail, each of which is a fall-back that is logged. */
int madvise(void *address, size_t bytes, int advice) {
    (void)address, (void)bytes, (void)advice;
    errno = EINVAL;
    return -1;
}

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
    (void)old, (void)old_bytes, (void)bytes, (void)flags;
    errno = EINVAL;
    return MAP_FAILED;
}

static void *cancelled_thread(void *argument) {
    /* Before the cancellation: libc's allocator may come across a cancellation point when it starts. */
    void *foreign = __libc_malloc(FOREIGN_BYTES);
    REQUIRE(foreign != NULL);
    /* Now pending: the next cancellation point ends the thread, wherever it is. */
    REQUIRE(pthread_cancel(pthread_self()) == 0);
    REQUIRE(malloc_usable_size(foreign) >= FOREIGN_BYTES);
    free(realloc(foreign, 2 * FOREIGN_BYTES));
    void *block = malloc(BLOCK_BYTES);
    REQUIRE(block != NULL);
    fill_pattern(block, BLOCK_BYTES, 1);
    void *neighbour = malloc(BLOCK_BYTES);
    void *grown = realloc(block, 3 * BLOCK_BYTES);
    REQUIRE(grown != NULL && has_pattern(grown, BLOCK_BYTES, 1));
    free(grown);
    free(neighbour);
    malloc_trim(0);
    calls_came_back++;
    pthread_testcancel();
    return argument;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result = NULL;
        REQUIRE(pthread_create(&thread, NULL, cancelled_thread, NULL) == 0);
        REQUIRE(pthread_join(thread, &result) == 0);
        REQUIRE(result == PTHREAD_CANCELED);
        /* Before the count is looked at: a lock that the thread took along shows as a hang here. */
        void *block = malloc(BLOCK_BYTES);
        REQUIRE(block != NULL);
        free(block);
        malloc_trim(0);
        REQUIRE(calls_came_back == i + 1);
    }
    return 0;
}
