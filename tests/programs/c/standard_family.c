/* One check for each promise of the standard allocation functions: standard_family <check>. */
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "library.h"

/* Through volatile variables, or the compiler sees the sizes and refuses or folds the calls. */
static volatile size_t too_large = (size_t)PTRDIFF_MAX + 1;
static volatile size_t size_max = SIZE_MAX;
static volatile size_t nothing = 0;

static const size_t lanes[] = {1,     8,     24,     100,     1024,    1025,   5000,
                               65536, 65537, 300000, 2097152, 2097153, 7000001};
enum { LANES = sizeof lanes / sizeof *lanes };

#define REQUIRE_FAILS(call, error)                                                                           \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        REQUIRE((call) == NULL);                                                                             \
        REQUIRE(errno == (error));                                                                           \
    } while (0)

static int is_aligned(const void *block, size_t alignment) {
    return (uintptr_t)block % alignment == 0;
}

static void check_blocks_are_aligned_and_distinct(void) {
    enum { BLOCKS = 3000 };
    static unsigned char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = i < 2200 ? i : i * 29;
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        REQUIRE(is_aligned(blocks[i], size > 8 ? 16 : 8));
        REQUIRE(malloc_usable_size(blocks[i]) >= size);
        fill_pattern(blocks[i], size, i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        REQUIRE(has_pattern(blocks[i], i < 2200 ? i : i * 29, i));
        free(blocks[i]);
    }
}

static void check_malloc_of_nothing_is_unique(void) {
    void *first = malloc(nothing), *second = malloc(nothing);
    REQUIRE(first && second && first != second);
    free(first);
    free(second);
    void *third = calloc(nothing, 8), *fourth = calloc(8, nothing);
    REQUIRE(third && fourth && third != fourth);
    free(third);
    free(fourth);
}

static void check_malloc_too_large_fails(void) {
    REQUIRE_FAILS(malloc(too_large), ENOMEM);
    REQUIRE_FAILS(malloc(size_max), ENOMEM);
    REQUIRE_FAILS(malloc(size_max - 4096), ENOMEM);
}

static void check_calloc_zeroes_reused_memory(void) {
    for (size_t lane = 0; lane < LANES; lane++)
        for (int round = 0; round < 4; round++) {
            unsigned char *dirty = malloc(lanes[lane]);
            REQUIRE(dirty != NULL);
            memset(dirty, 0xff, lanes[lane]);
            free(dirty);
            unsigned char *zeroed = calloc(lanes[lane], 1);
            REQUIRE(zeroed != NULL);
            for (size_t i = 0; i < lanes[lane]; i++)
                REQUIRE(zeroed[i] == 0);
            memset(zeroed, 0xff, lanes[lane]);
            free(zeroed);
        }
}

static void check_calloc_overflow_fails(void) {
    REQUIRE_FAILS(calloc(size_max / 2, 3), ENOMEM);
    REQUIRE_FAILS(calloc((too_large >> 31) + 5, (too_large >> 31) + 5), ENOMEM);
    REQUIRE_FAILS(calloc(1, too_large), ENOMEM);
    REQUIRE_FAILS(calloc(too_large, 1), ENOMEM);
}

static void check_realloc_keeps_contents(void) {
    for (size_t from = 0; from < LANES; from++)
        for (size_t to = 0; to < LANES; to++) {
            size_t kept = lanes[from] < lanes[to] ? lanes[from] : lanes[to];
            void *block = malloc(lanes[from]);
            REQUIRE(block != NULL);
            fill_pattern(block, lanes[from], from);
            block = realloc(block, lanes[to]);
            REQUIRE(block != NULL && malloc_usable_size(block) >= lanes[to]);
            REQUIRE(has_pattern(block, kept, from));
            memset(block, 0xaa, lanes[to]);
            free(block);
        }
    size_t size = 1;
    unsigned char *growing = malloc(size);
    REQUIRE(growing != NULL);
    growing[0] = pattern_byte(0, 9);
    while (size < 20000000) {
        size_t next = size + size / 3 + 1;
        growing = realloc(growing, next);
        REQUIRE(growing != NULL);
        for (size_t i = size; i < next; i++)
            growing[i] = pattern_byte(i, 9);
        size = next;
    }
    REQUIRE(has_pattern(growing, size, 9));
    while (size > 10) {
        size -= size / 4 + 1;
        growing = realloc(growing, size);
        REQUIRE(growing != NULL && has_pattern(growing, size < 5000 ? size : 5000, 9));
    }
    free(growing);
}

static void check_realloc_edge_cases(void) {
    void *block = realloc(NULL, 100);
    REQUIRE(block != NULL);
    fill_pattern(block, 100, 1);
    REQUIRE_FAILS(realloc(block, too_large), ENOMEM);
    REQUIRE_FAILS(realloc(block, size_max), ENOMEM);
    REQUIRE(has_pattern(block, 100, 1));
    REQUIRE(realloc(block, nothing) == NULL);
    void *from_nothing = realloc(NULL, nothing);
    REQUIRE(from_nothing != NULL);
    free(from_nothing);
}

static void check_reallocarray(void) {
    void *block = reallocarray(NULL, 10, 10);
    REQUIRE(block != NULL && malloc_usable_size(block) >= 100);
    fill_pattern(block, 100, 2);
    REQUIRE_FAILS(reallocarray(block, size_max / 2, 3), ENOMEM);
    REQUIRE_FAILS(reallocarray(block, 1, too_large), ENOMEM);
    REQUIRE(has_pattern(block, 100, 2));
    block = reallocarray(block, 1000, 100);
    REQUIRE(block != NULL && has_pattern(block, 100, 2));
    REQUIRE(malloc_usable_size(block) >= 100000);
    free(block);
}

static void use_aligned(void *block, size_t alignment, size_t size) {
    REQUIRE(block != NULL && is_aligned(block, alignment));
    REQUIRE(malloc_usable_size(block) >= size);
    fill_pattern(block, size, alignment);
    REQUIRE(has_pattern(block, size, alignment));
    void *moved = realloc(block, size + 100);
    REQUIRE(moved != NULL && has_pattern(moved, size, alignment));
    free(moved);
}

/* Every alignment to 4 MiB, with sizes of every lane, by each of the three functions. */
static void check_aligned_functions_align(void) {
    for (size_t alignment = sizeof(void *); alignment <= (size_t)4 << 20; alignment *= 2)
        for (size_t lane = 0; lane < LANES; lane++) {
            size_t size = lanes[lane];
            if (alignment > 65536 && size > 3000000)
                continue;
            void *block = NULL;
            REQUIRE(posix_memalign(&block, alignment, size) == 0);
            use_aligned(block, alignment, size);
            use_aligned(aligned_alloc(alignment, size), alignment, size);
            use_aligned(memalign(alignment, size), alignment, size);
        }
}

static void check_posix_memalign_bad_arguments(void) {
    static const size_t bad[] = {0, 1, 2, 3, 4, 7, 9, 24, 48, 100, 4097, SIZE_MAX};
    void *untouched = &untouched;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REQUIRE(posix_memalign(&untouched, bad[i], 64) == EINVAL);
        REQUIRE(untouched == &untouched);
    }
    REQUIRE(posix_memalign(&untouched, 64, too_large) == ENOMEM);
    REQUIRE(posix_memalign(&untouched, 64, size_max - 32) == ENOMEM);
    REQUIRE(posix_memalign(&untouched, (size_t)1 << 62, 64) == ENOMEM);
    REQUIRE(untouched == &untouched);
    void *empty = NULL;
    REQUIRE(posix_memalign(&empty, 64, nothing) == 0);
    REQUIRE(empty == NULL || is_aligned(empty, 64));
    free(empty);
}

static void check_aligned_alloc_bad_arguments(void) {
    static const volatile size_t bad[] = {0, 3, 24, 100, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REQUIRE_FAILS(aligned_alloc(bad[i], 64), EINVAL);
    REQUIRE_FAILS(aligned_alloc(64, too_large), ENOMEM);
    REQUIRE_FAILS(memalign(64, too_large), ENOMEM);
    REQUIRE_FAILS(memalign(4096, size_max - 100), ENOMEM);
}

static void check_valloc_and_pvalloc_give_pages(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t lane = 0; lane < LANES; lane++) {
        use_aligned(valloc(lanes[lane]), page, lanes[lane]);
        use_aligned(pvalloc(lanes[lane]), page, (lanes[lane] + page - 1) / page * page);
    }
    REQUIRE_FAILS(valloc(too_large), ENOMEM);
    REQUIRE_FAILS(pvalloc(too_large), ENOMEM);
    REQUIRE_FAILS(pvalloc(size_max - 5), ENOMEM);
}

static void check_usable_size_is_usable(void) {
    REQUIRE(malloc_usable_size(NULL) == 0);
    for (size_t lane = 0; lane < LANES; lane++) {
        void *blocks[3];
        for (size_t i = 0; i < 3; i++) {
            blocks[i] = malloc(lanes[lane]);
            REQUIRE(blocks[i] != NULL);
            fill_pattern(blocks[i], malloc_usable_size(blocks[i]), i);
        }
        for (size_t i = 0; i < 3; i++) {
            REQUIRE(has_pattern(blocks[i], malloc_usable_size(blocks[i]), i));
            free(blocks[i]);
        }
    }
}

static void *free_all(void *blocks) {
    errno = 1234;
    for (size_t lane = 0; lane < LANES; lane++)
        free(((void **)blocks)[lane]);
    REQUIRE(errno == 1234);
    return NULL;
}

static void check_free_keeps_errno(void) {
    void *blocks[LANES];
    for (int by_other_thread = 0; by_other_thread < 2; by_other_thread++)
        for (int round = 0; round < 50; round++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                blocks[lane] = malloc(lanes[lane]);
                REQUIRE(blocks[lane] != NULL);
                memset(blocks[lane], 1, lanes[lane]);
            }
            pthread_t thread;
            if (by_other_thread) {
                REQUIRE(pthread_create(&thread, NULL, free_all, blocks) == 0);
                REQUIRE(pthread_join(thread, NULL) == 0);
            } else {
                free_all(blocks);
            }
        }
    errno = 1234;
    free(NULL);
    REQUIRE(errno == 1234);
}

/* These three are looked up by name: libraries and headers of today's systems do not all have them. */
static void check_sized_frees_and_cfree(void) {
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))library_function("free_sized");
    void (*free_aligned_sized)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))library_function("free_aligned_sized");
    void (*cfree)(void *) = (void (*)(void *))library_function("cfree");
    free_sized(NULL, 10);
    free_aligned_sized(NULL, 64, 10);
    cfree(NULL);
    for (int round = 0; round < 200; round++)
        for (size_t lane = 0; lane < LANES; lane++) {
            void *block = malloc(lanes[lane]);
            REQUIRE(block != NULL);
            free_sized(block, lanes[lane]);
            block = aligned_alloc(256, lanes[lane]);
            REQUIRE(block != NULL);
            free_aligned_sized(block, 256, lanes[lane]);
            block = calloc(1, lanes[lane]);
            REQUIRE(block != NULL);
            cfree(block);
        }
}

static void check_malloc_trim_and_mallopt_answer(void) {
    void *block = malloc(30000000);
    REQUIRE(block != NULL);
    memset(block, 1, 30000000);
    free(block);
    int trimmed = malloc_trim(0);
    REQUIRE(trimmed == 0 || trimmed == 1);
    int set = mallopt(M_MMAP_THRESHOLD, 1 << 20);
    REQUIRE(set == 0 || set == 1);
    REQUIRE(mallopt(12345, 1) == 0 || mallopt(12345, 1) == 1);
}

static void check_malloc_stats_goes_to_stderr(void) {
    malloc_stats();
}

static void check_malloc_info_prints_xml(void) {
    void *live = malloc(100000);
    REQUIRE(live != NULL);
    REQUIRE(malloc_info(1, stdout) != 0);
    REQUIRE(malloc_info(0, stdout) == 0);
    free(live);
}

static void check_mallinfo_counts_live_bytes(void) {
    enum { BLOCKS = 5000, SIZE = 2000 };
    static void *blocks[BLOCKS];
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    struct mallinfo2 full = mallinfo2();
    REQUIRE(full.uordblks >= before.uordblks + (size_t)BLOCKS * SIZE * 9 / 10);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
    REQUIRE(narrow.uordblks > 0 && (size_t)narrow.uordblks + 1000000 > full.uordblks);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    struct mallinfo2 after = mallinfo2();
    REQUIRE(after.uordblks + (size_t)BLOCKS * SIZE / 2 < full.uordblks);
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"blocks_are_aligned_and_distinct", check_blocks_are_aligned_and_distinct},
    {"malloc_of_nothing_is_unique", check_malloc_of_nothing_is_unique},
    {"malloc_too_large_fails", check_malloc_too_large_fails},
    {"calloc_zeroes_reused_memory", check_calloc_zeroes_reused_memory},
    {"calloc_overflow_fails", check_calloc_overflow_fails},
    {"realloc_keeps_contents", check_realloc_keeps_contents},
    {"realloc_edge_cases", check_realloc_edge_cases},
    {"reallocarray", check_reallocarray},
    {"aligned_functions_align", check_aligned_functions_align},
    {"posix_memalign_bad_arguments", check_posix_memalign_bad_arguments},
    {"aligned_alloc_bad_arguments", check_aligned_alloc_bad_arguments},
    {"valloc_and_pvalloc_give_pages", check_valloc_and_pvalloc_give_pages},
    {"usable_size_is_usable", check_usable_size_is_usable},
    {"free_keeps_errno", check_free_keeps_errno},
    {"sized_frees_and_cfree", check_sized_frees_and_cfree},
    {"malloc_trim_and_mallopt_answer", check_malloc_trim_and_mallopt_answer},
    {"malloc_stats_goes_to_stderr", check_malloc_stats_goes_to_stderr},
    {"malloc_info_prints_xml", check_malloc_info_prints_xml},
    {"mallinfo_counts_live_bytes", check_mallinfo_counts_live_bytes},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (argc == 2 && strcmp(argv[1], checks[i].name) == 0) {
            checks[i].run();
            return 0;
        }
    fprintf(stderr, "usage: standard_family <check>, one of:\n");
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        fprintf(stderr, "  %s\n", checks[i].name);
    return 2;
}
