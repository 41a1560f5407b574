/* Blocks that libc's own allocator made, as its internals do, reach the library's functions: each
 * must be recognised and handed to libc. */
#include <malloc.h>

#include "check.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static const size_t sizes[] = {1, 24, 1000, 5000, 70000, 130000, 1000000, 9000000};

int main(void) {
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t size = sizes[i];
            void *block = __libc_malloc(size);
            REQUIRE(block != NULL);
            REQUIRE(malloc_usable_size(block) >= size);
            fill_pattern(block, size, i);
            errno = 77;
            free(block);
            REQUIRE(errno == 77);

            block = __libc_calloc(1, size);
            REQUIRE(block != NULL);
            fill_pattern(block, size, i);
            block = realloc(block, size * 3);
            REQUIRE(block != NULL && has_pattern(block, size, i));
            REQUIRE(malloc_usable_size(block) >= size * 3);
            block = realloc(block, size);
            REQUIRE(block != NULL && has_pattern(block, size, i));
            free(block);

            block = __libc_memalign(4096, size);
            REQUIRE(block != NULL);
            REQUIRE(realloc(block, 0) == NULL);
        }
    puts("libc's blocks went back to libc");
    return 0;
}
