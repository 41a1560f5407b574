/* Blocks that libc's own allocator made, as its internals do, reach the library's functions: each
 * must be recognised and handed to libc. */
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static const size_t sizes[] = {1, 24, 1000, 5000, 70000, 130000, 1000000, 9000000};

/* A page of which the kernel keeps something else in mind is a mapping of its own. */
static void split_mapping_inside(void *block) {
    void *page = (void *)(((uintptr_t)block + 2 * 4096) & ~(uintptr_t)4095);
    REQUIRE(madvise(page, 4096, MADV_DONTDUMP) == 0);
}

static void *free_one_of_another_arena(void *unused) {
    void *block = __libc_malloc(60000);
    REQUIRE(block != NULL);
    split_mapping_inside(block);
    free(block);
    return unused;
}

int main(void) {
    void *block_of_two_mappings = __libc_malloc(60000);
    REQUIRE(block_of_two_mappings != NULL);
    split_mapping_inside(block_of_two_mappings);
    free(block_of_two_mappings);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_one_of_another_arena, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);

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
