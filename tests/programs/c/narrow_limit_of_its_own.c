/* A program that limits its address space itself, to the MiB that its argument says: there is room for its
 * files and its threads, and malloc keeps to the limit. Prints MiB obtained. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

static const size_t MIB = (size_t)1 << 20;

static void *allocate_in_thread(void *unused) {
    (void)unused;
    void *block = malloc(1000);
    REQUIRE(block != NULL);
    fill_pattern(block, 1000, 1);
    return block;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    char *early = malloc(100000);
    REQUIRE(early != NULL);
    fill_pattern(early, 100000, 0);
    struct rlimit limit = {.rlim_cur = strtoul(argv[1], NULL, 10) * MIB, .rlim_max = RLIM_INFINITY};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    REQUIRE(mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    pthread_t thread;
    void *late = NULL;
    REQUIRE(pthread_create(&thread, NULL, allocate_in_thread, NULL) == 0);
    REQUIRE(pthread_join(thread, &late) == 0);
    size_t obtained = 0;
    for (char *block; (block = malloc(MIB)) != NULL; obtained++)
        fill_pattern(block, MIB, obtained);
    REQUIRE(errno == ENOMEM);
    REQUIRE(has_pattern(early, 100000, 0) && has_pattern(late, 1000, 1));
    free(early);
    free(late);
    printf("%zu\n", obtained);
    return 0;
}
