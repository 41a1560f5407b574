/* Grows huge blocks while mremap fails, by a limit of the real kernel or as kernels of other ages do:
 * huge_realloc_when_mremap_fails <failure> grow | repeat. Built with -rdynamic, the program's own mremap
 * comes before libc's. */
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../include/hakmem.h"
#include "library.h"

#define MIB ((size_t)1 << 20)

enum { GROWTHS = 4, NEW_BLOCKS = 10, REPETITIONS = 100, WITNESS_BYTES = 4096 };
static const size_t first_bytes = 6 * MIB, neighbour_bytes = 3 * MIB, new_bytes = 5 * MIB;

/* What the program's mremap does. */
static enum {
    IS_LET_THROUGH,
    LACKS_DONTUNMAP, /* before Linux 5.7 */
    MEETS_A_LIMIT,   /* of the number of mappings, which is looked at first */
    UNMAPS_ITS_TARGET,
    LEAVES_ITS_TARGET_TO_OTHERS
} move;
static int failed_moves, new_memory_may_fail;
static unsigned char *witnesses[GROWTHS];

/* Kernels before 6.17 look whether the old pages are one area after they have cleared the new place. */
static void unmap_target(unsigned char *target, size_t bytes) {
    REQUIRE(munmap(target, bytes) == 0);
    if (move == UNMAPS_ITS_TARGET)
        return;
    /* Another thread's mmap is served at once from the hole. */
    REQUIRE(failed_moves <= GROWTHS); /* or there is no room to note it */
    unsigned char *witness = mmap(target + bytes / 2, WITNESS_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(witness == target + bytes / 2);
    fill_pattern(witness, WITNESS_BYTES, 99);
    witnesses[failed_moves - 1] = witness;
}

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    if (move == IS_LET_THROUGH || (move == LACKS_DONTUNMAP && !(flags & MREMAP_DONTUNMAP)))
        return (void *)syscall(SYS_mremap, old, old_bytes, bytes, flags, target);
    failed_moves++;
    if (target && move >= UNMAPS_ITS_TARGET)
        unmap_target(target, bytes);
    errno = move == LACKS_DONTUNMAP ? EINVAL : move == MEETS_A_LIMIT ? ENOMEM : EFAULT;
    return MAP_FAILED;
}

/* As another process may do, so that what the library has reserved is there. */
static void limit(__rlimit_resource_t resource) {
    struct rlimit limits;
    REQUIRE(getrlimit(resource, &limits) == 0);
    limits.rlim_cur = 64 * MIB;
    REQUIRE(syscall(SYS_prlimit64, 0, resource, &limits, NULL) == 0);
}

static void unlimit(__rlimit_resource_t resource) {
    struct rlimit limits;
    REQUIRE(getrlimit(resource, &limits) == 0);
    limits.rlim_cur = limits.rlim_max;
    REQUIRE(setrlimit(resource, &limits) == 0);
}

/* The block, larger, or NULL with the block as it was where the kernel gives no new memory. */
static unsigned char *grow(unsigned char *block, size_t had, size_t wanted) {
    errno = 0;
    unsigned char *grown = realloc(block, wanted);
    if (!grown) {
        REQUIRE(new_memory_may_fail && errno == ENOMEM);
        REQUIRE(has_pattern(block, had, 1));
        return NULL;
    }
    REQUIRE(has_pattern(grown, had, 1));
    fill_pattern(grown, wanted, 1);
    return grown;
}

/* No address that the failed moves dealt with may be handed out twice or without memory behind it. */
static void use_what_is_left(void) {
    unsigned char *blocks[NEW_BLOCKS];
    for (size_t i = 0; i < NEW_BLOCKS; i++) {
        blocks[i] = i % 2 ? malloc(new_bytes) : calloc(1, new_bytes);
        REQUIRE(blocks[i] != NULL || (new_memory_may_fail && errno == ENOMEM));
        for (size_t at = 0; blocks[i] && i % 2 == 0 && at < new_bytes; at++)
            REQUIRE(blocks[i][at] == 0);
        if (blocks[i])
            fill_pattern(blocks[i], new_bytes, i + 2);
    }
    for (size_t i = 0; i < NEW_BLOCKS; i++) {
        REQUIRE(!blocks[i] || has_pattern(blocks[i], new_bytes, i + 2));
        free(blocks[i]);
    }
    for (int i = 0; i < GROWTHS; i++)
        REQUIRE(!witnesses[i] || has_pattern(witnesses[i], WITNESS_BYTES, 99));
}

static void begin(const char *failure) {
    if (strcmp(failure, "dontunmap_unknown") == 0)
        move = LACKS_DONTUNMAP;
    else if (strcmp(failure, "mapping_limit") == 0)
        move = MEETS_A_LIMIT;
    else if (strcmp(failure, "target_unmapped") == 0)
        move = UNMAPS_ITS_TARGET;
    else if (strcmp(failure, "target_taken_by_others") == 0)
        move = LEAVES_ITS_TARGET_TO_OTHERS;
    else if (strcmp(failure, "address_space_limit") == 0)
        limit(RLIMIT_AS);
    else if (strcmp(failure, "data_limit") == 0) {
        limit(RLIMIT_DATA);
        new_memory_may_fail = 1;
    } else
        REQUIRE(strcmp(failure, "pages_advised") == 0);
}

static void end(int moves) {
    unlimit(RLIMIT_AS);
    unlimit(RLIMIT_DATA);
    REQUIRE(moves > 0 || new_memory_may_fail);
    REQUIRE(failed_moves > 0 || move == IS_LET_THROUGH);
}

/* One block grows past its neighbours several times, with other blocks made and freed in between. */
static void grow_one_block(const char *failure) {
    void *neighbours[GROWTHS];
    size_t bytes = first_bytes;
    unsigned char *block = malloc(bytes);
    REQUIRE(block != NULL);
    fill_pattern(block, bytes, 1);
    neighbours[0] = malloc(neighbour_bytes); /* the block cannot grow where it stands */
    begin(failure);
    int moves = 0;
    for (int i = 1; i < GROWTHS; i++) {
        /* Pages that the program advised on are areas of their own, which mremap may not move in one. */
        if (strcmp(failure, "pages_advised") == 0) {
            uintptr_t middle = (uintptr_t)(block + bytes / 2) & ~(uintptr_t)4095;
            REQUIRE(madvise((void *)middle, 4096, MADV_DONTDUMP) == 0);
        }
        unsigned char *grown = grow(block, bytes, bytes * 2);
        if (grown) {
            moves += grown != block;
            block = grown;
            bytes *= 2;
        }
        use_what_is_left();
        REQUIRE(has_pattern(block, bytes, 1));
        neighbours[i] = malloc(neighbour_bytes);
    }
    end(moves);
    free(block);
    for (int i = 0; i < GROWTHS; i++)
        free(neighbours[i]);
    use_what_is_left();
}

static size_t reserved_bytes(void) {
    void (*stats_get)(hak_stats_t *) = (void (*)(hak_stats_t *))library_function("hak_stats_get");
    hak_stats_t stats;
    stats_get(&stats);
    return stats.reserved_bytes;
}

/* What fits the address space once fits it as often as one likes. */
static void grow_many_blocks(const char *failure) {
    size_t reserved_before = 0;
    int moves = 0;
    for (int i = 0; i < REPETITIONS; i++) {
        unsigned char *block = malloc(first_bytes);
        void *neighbour = malloc(neighbour_bytes);
        REQUIRE(block != NULL && neighbour != NULL);
        if (i == 0) {
            reserved_before = reserved_bytes();
            begin(failure);
        }
        fill_pattern(block, WITNESS_BYTES, 1);
        unsigned char *grown = realloc(block, 2 * first_bytes);
        if (!grown)
            fprintf(stderr, "no memory at repetition %d\n", i);
        REQUIRE(grown != NULL && has_pattern(grown, WITNESS_BYTES, 1));
        moves += grown != block;
        free(grown);
        free(neighbour);
    }
    end(moves);
    size_t reserved = reserved_bytes(); /* less where the limit has had the page map given up */
    if (reserved > reserved_before + REPETITIONS * first_bytes)
        fprintf(stderr, "%zu MiB more reserved\n", (reserved - reserved_before) / MIB);
    REQUIRE(reserved <= reserved_before + REPETITIONS * first_bytes);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    if (strcmp(argv[2], "grow") == 0)
        grow_one_block(argv[1]);
    else if (strcmp(argv[2], "repeat") == 0)
        grow_many_blocks(argv[1]);
    else
        REQUIRE(!"the second argument is grow or repeat");
    return 0;
}
