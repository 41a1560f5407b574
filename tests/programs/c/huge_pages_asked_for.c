/* Asks for huge pages in huge blocks of its own, or lets the library ask where it is said not to, and frees
 * them: blocks that come to lie there, of which little is used, take little. Prints how many KiB they take.
 * With OWN_MADVISE, built with -rdynamic, calls of madvise come to the program's own. */
#include <malloc.h>
#include <sys/mman.h>

#include "check.h"

#ifdef OWN_MADVISE
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void *address, size_t bytes, int advice) {
    return (int)syscall(SYS_madvise, address, bytes, advice);
}
#endif

#ifndef ASKING_KIB
#define ASKING_KIB (4 * 1024 + 4)
#define OTHER_KIB (3 * 1024)
#endif

enum { BLOCKS = 50 };

static const size_t ASKING_BYTES = (size_t)ASKING_KIB << 10;
static const size_t OTHER_BYTES = (size_t)OTHER_KIB << 10;
static const size_t STRIDE_BYTES = (size_t)512 << 10;

static void ask(char *block) {
    void *page = (void *)((uintptr_t)block & ~(uintptr_t)4095);
    REQUIRE(madvise(page, ASKING_BYTES, MADV_HUGEPAGE) == 0);
}

int main(int argc, char **argv) {
    int asks = argc < 2 || strcmp(argv[1], "not") != 0;
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(ASKING_BYTES);
        REQUIRE(blocks[i] != NULL);
        if (asks)
            ask(blocks[i]);
        memset(blocks[i], 1, ASKING_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    malloc_trim(0);
    long before_kb = status_kb("VmRSS:");
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(OTHER_BYTES);
        REQUIRE(blocks[i] != NULL);
        for (size_t at = 0; at < OTHER_BYTES; at += STRIDE_BYTES)
            blocks[i][at] = 1;
    }
    printf("%ld\n", status_kb("VmRSS:") - before_kb);
    return 0;
}
