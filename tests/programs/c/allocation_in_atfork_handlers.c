/* Forks with atfork handlers that allocate, registered before and after the allocator's own, while
 * threads allocate too: allocation_in_atfork_handlers allocate | await_worker. */
#include <pthread.h>
#include <stdatomic.h>

#include "atfork_library.h"
#include "children.h"

enum { FORKS = 25, THREADS = 2 };

static atomic_bool stop;
static int own_handlers_run;

static void *allocating_thread(void *argument) {
    while (!atomic_load(&stop))
        use_every_lane((size_t)(uintptr_t)argument);
    return NULL;
}

static void own_handler(void) {
    own_handlers_run++;
    use_every_lane(80);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    int with_worker = strcmp(argv[1], "await_worker") == 0;
    REQUIRE(with_worker || strcmp(argv[1], "allocate") == 0);
    REQUIRE(pthread_atfork(own_handler, own_handler, own_handler) == 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocating_thread, (void *)i) == 0);
    for (int i = 0; i < FORKS; i++) {
        note("fork", i);
        if (with_worker)
            atfork_library_start_worker();
        pid_t pid = fork();
        if (pid == 0) {
            REQUIRE(atfork_library_handlers_run() == 2 * (i + 1) && own_handlers_run == 2 * (i + 1));
            use_every_lane((size_t)i);
            if (with_worker)
                atfork_library_start_worker();
            /* And once more from the child, whose heaps were put in order by the handlers. */
            pid_t grandchild = fork();
            if (grandchild != 0)
                require_good_end(grandchild);
            use_every_lane((size_t)i);
            _exit(0);
        }
        require_good_end(pid);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%d forks\n", FORKS);
    return 0;
}
