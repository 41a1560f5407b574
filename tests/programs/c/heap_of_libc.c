/* On libc's allocator, though the library is there: what is asked about the heap is about libc's, and what is
 * to be given back is given back by libc. */
#include <malloc.h>

#include "check.h"
#include "library.h"

#define BLOCKS 100000
#define BLOCK_BYTES 1000

static void *blocks[BLOCKS];

static void gives_back(void) {
    for (size_t i = 0; i < BLOCKS; i++)
        REQUIRE((blocks[i] = malloc(BLOCK_BYTES)) != NULL);
    REQUIRE(mallinfo2().uordblks >= (size_t)BLOCKS * BLOCK_BYTES);
    for (size_t i = 0; i < BLOCKS - 1; i++) /* the last one keeps libc's top where it is */
        free(blocks[i]);
    size_t kept = mallinfo2().fordblks;
    REQUIRE(kept >= (size_t)(BLOCKS - 1) * BLOCK_BYTES);
    long before = status_kb("VmRSS:");
    REQUIRE(malloc_trim(0) == 1);
    REQUIRE(before - status_kb("VmRSS:") > BLOCKS / 1024 * BLOCK_BYTES / 2);
}

static void is_tuned(void) {
    REQUIRE(mallopt(M_MMAP_THRESHOLD, 1 << 24) == 1);
    size_t mapped = mallinfo2().hblks;
    void *block = malloc(1 << 20); /* far more than what libc maps by itself unless told */
    REQUIRE(mallinfo2().hblks == mapped);
    free(block);
    REQUIRE(mallopt(M_MXFAST, 1 << 20) == 0); /* more than libc takes */
}

static void describes_itself(void) {
    char text[1 << 16] = "";
    FILE *stream = fmemopen(text, sizeof text - 1, "w");
    REQUIRE(malloc_info(0, stream) == 0);
    fclose(stream);
    REQUIRE(strstr(text, "<malloc version=\"1\">") != NULL);
}

static void promises_no_more_than_libc_gives(void) {
    size_t (*good_size)(size_t) = (size_t(*)(size_t))library_function("hak_good_size");
    for (size_t size = 0; size < 5000; size++) {
        void *block = malloc(size);
        size_t good = good_size(size);
        REQUIRE(size <= good && good <= malloc_usable_size(block));
        free(block);
    }
    REQUIRE(good_size(SIZE_MAX) == 0);
}

int main(void) {
    is_tuned(); /* before anything is free, from which libc would serve instead */
    gives_back();
    describes_itself();
    promises_no_more_than_libc_gives();
    return 0;
}
