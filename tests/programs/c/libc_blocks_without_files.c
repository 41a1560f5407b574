/* Blocks of libc's own allocator are freed and resized while the process can open no file, so that
 * the list of its mappings in /proc cannot be read: they must reach libc all the same. */
#include <malloc.h>
#include <sys/resource.h>

#include "check.h"

extern void *__libc_malloc(size_t size);

static const size_t sizes[] = {24, 5000, 130000, 9000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

int main(void) {
    struct rlimit limits;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limits) == 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limits.rlim_max};
    void *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = __libc_malloc(sizes[i]);
        REQUIRE(blocks[i] != NULL);
        fill_pattern(blocks[i], sizes[i], i);
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    REQUIRE(fopen("/proc/self/maps", "r") == NULL && errno == EMFILE);
    for (size_t i = 0; i < SIZES; i++) {
        REQUIRE(malloc_usable_size(blocks[i]) >= sizes[i]);
        blocks[i] = realloc(blocks[i], sizes[i] * 2);
        REQUIRE(blocks[i] != NULL && has_pattern(blocks[i], sizes[i], i));
        free(blocks[i]);
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limits) == 0);
    puts("libc's blocks went back to libc");
    return 0;
}
