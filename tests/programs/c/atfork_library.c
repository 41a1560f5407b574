/* The program needs this library, so it is initialised before a preloaded one: its prepare handler
 * runs after that one's, its parent and child handlers before them. */
#include "atfork_library.h"

#include <pthread.h>
#include <stdatomic.h>

#include "children.h"

enum { TAG = 40 };

static void *kept[LANES];
static int handlers_run;
static pthread_t worker;
static int has_worker;
static atomic_bool stop;

static void *allocate_until_stopped(void *argument) {
    do
        use_every_lane(TAG);
    while (!atomic_load(&stop));
    return argument;
}

void atfork_library_start_worker(void) {
    atomic_store(&stop, 0);
    REQUIRE(pthread_create(&worker, NULL, allocate_until_stopped, NULL) == 0);
    has_worker = 1;
}

int atfork_library_handlers_run(void) {
    return handlers_run;
}

static void before_fork(void) {
    handlers_run++;
    if (has_worker) {
        atomic_store(&stop, 1);
        REQUIRE(pthread_join(worker, NULL) == 0);
        has_worker = 0;
    }
    use_every_lane(TAG);
    for (size_t i = 0; i < LANES; i++) {
        kept[i] = malloc(lane_sizes[i]);
        REQUIRE(kept[i] != NULL);
        fill_pattern(kept[i], checked_bytes(lane_sizes[i]), i);
    }
}

/* What the handler before the fork made is there on both sides, and the heap is usable at once. */
static void after_fork(void) {
    handlers_run++;
    for (size_t i = 0; i < LANES; i++) {
        REQUIRE(has_pattern(kept[i], checked_bytes(lane_sizes[i]), i));
        free(kept[i]);
    }
    use_every_lane(TAG);
}

__attribute__((constructor)) static void register_handlers(void) {
    REQUIRE(pthread_atfork(before_fork, after_fork, after_fork) == 0);
}
