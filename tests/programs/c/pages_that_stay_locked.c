/* A kernel that does not take back what the program has locked, which lies in many pieces at the highest
 * addresses: what is free below it goes back all the same. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum { BLOCKS = 1500, LOCKED_BLOCKS = 200, LOOKS = 1000 };

static const size_t BLOCK_BYTES = (size_t)128 << 10;
/* What may stay of what is free: a part of what is in use. */
static const long MORE_KB = 20 << 10;

static uintptr_t locked_from = UINTPTR_MAX;

int madvise(void *address, size_t bytes, int advice) {
    if ((advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED) &&
        (uintptr_t)address + bytes > locked_from) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

static char *blocks[BLOCKS];

static int compare_addresses(const void *a, const void *b) {
    uintptr_t first = *(const uintptr_t *)a;
    uintptr_t second = *(const uintptr_t *)b;
    return (first > second) - (first < second);
}

int main(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        REQUIRE(blocks[i] != NULL);
        fill_pattern(blocks[i], BLOCK_BYTES, (size_t)i);
    }
    long all_kb = status_kb("VmRSS:");
    qsort(blocks, BLOCKS, sizeof *blocks, compare_addresses);
    locked_from = (uintptr_t)blocks[BLOCKS - LOCKED_BLOCKS];
    for (int i = BLOCKS - 1; i >= 0; i -= 2) /* those that are locked first */
        free(blocks[i]);
    long freed_kb = (BLOCKS - LOCKED_BLOCKS) / 2 * (long)(BLOCK_BYTES >> 10);
    /* The kernel is asked again after a while, and when more is freed. */
    for (int looks = 0; status_kb("VmRSS:") > all_kb - freed_kb + MORE_KB; looks++) {
        REQUIRE(looks < LOOKS);
        usleep(10000);
        free(malloc(BLOCK_BYTES));
    }
    return 0;
}
