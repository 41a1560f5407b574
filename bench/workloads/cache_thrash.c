/* Active false sharing: threads that each allocate small blocks and write them. */
#include "cache_line.h"

int main(int argc, char **argv) {
    static const struct cache_line_shape shape = {
        .name = "cache_thrash",
        .stands_for = "Threads that each allocate, write and free small objects. If the allocator serves "
                      "several threads from\n"
                      "one cache line (active false sharing), each write of one slows the others.",
        .given_by_main = false,
    };
    return cache_line_main(&shape, argc, argv);
}
