/* Allocates and frees blocks of a size, and sleeps: prints the kB over the start that stay. */
#include "resident.h"

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    size_t size = strtoul(argv[1], NULL, 10), bytes = strtoul(argv[2], NULL, 10);
    memset(blocks, 0, bytes / size * sizeof *blocks);
    free(malloc(size));
    long start_kb = resident_kb();
    use_and_free(size, bytes);
    printf("%ld\n", idle_until_little_is_left(start_kb));
    return 0;
}
