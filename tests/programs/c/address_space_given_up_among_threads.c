/* A program limits its address space while another thread allocates large blocks, which holds the library's
 * locks most of the time: what was reserved for speed is there for the program's own mappings all the same.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"
#include "children.h"

enum { TRIES = 10, BLOCKS = 64 };

static const size_t LIMIT_BYTES = (size_t)4 << 30;
static const size_t MAPPED_BYTES = (size_t)64 << 20;

static atomic_int is_busy;

static void *churn_without_end(void *unused) {
    static char *blocks[BLOCKS];
    uint32_t state = 1;
    for (;;) {
        char **block = &blocks[next_random(&state) % BLOCKS];
        free(*block);
        *block = malloc(70000 + next_random(&state) % 1000000);
        if (*block != NULL)
            **block = 1;
        is_busy = 1;
    }
    return unused;
}

static void limit_and_map(void) {
    struct rlimit limit = {.rlim_cur = LIMIT_BYTES, .rlim_max = RLIM_INFINITY};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, churn_without_end, NULL) == 0);
    while (!is_busy)
        usleep(1000);
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    void *mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
}

int main(void) {
    for (int i = 0; i < TRIES; i++) {
        pid_t child = fork();
        if (child == 0) {
            limit_and_map();
            _exit(0);
        }
        require_good_end(child);
    }
    return 0;
}
