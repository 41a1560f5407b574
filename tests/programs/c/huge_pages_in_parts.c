/* Asks for huge pages in blocks of its own of KIB, fills them and frees them; then fills blocks of 1 MiB
 * there, and frees each second one. Prints how many huge pages the kernel gave, and how many it has split
 * since. */
#include <malloc.h>
#include <sys/mman.h>

#include "check.h"

enum { BLOCKS = 50, MIB = 1 << 20 };

static const size_t ASKING_BYTES = (size_t)KIB << 10;

static long huge_pages(void) {
    return figure_in("/proc/self/smaps_rollup", "AnonHugePages:") / 2048;
}

/* Of the whole machine. */
static long huge_pages_split(void) {
    return figure_in("/proc/vmstat", "thp_split_page ");
}

int main(void) {
    static char *asking[BLOCKS], *others[2 * BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE(posix_memalign((void **)&asking[i], 4096, ASKING_BYTES) == 0);
        REQUIRE(madvise(asking[i], ASKING_BYTES, MADV_HUGEPAGE) == 0);
        memset(asking[i], 1, ASKING_BYTES);
    }
    long given = huge_pages();
    for (int i = 0; i < BLOCKS; i++)
        free(asking[i]);
    for (int i = 0; i < 2 * BLOCKS; i++)
        others[i] = filled(malloc(MIB), MIB);
    long before = huge_pages_split();
    for (int i = 0; i < 2 * BLOCKS; i += 2)
        free(others[i]);
    malloc_trim(0);
    printf("%ld %ld\n", given, huge_pages_split() - before);
    return 0;
}
