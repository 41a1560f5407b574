/* Passive false sharing: blocks of one cache line, spread over threads, freed and taken again. */
#include "cache_line.h"

int main(int argc, char **argv) {
    static const struct cache_line_shape shape = {
        .name = "cache_scratch",
        .stands_for =
            "A main thread makes small objects and hands one to each worker, which frees it, and from then "
            "on\n"
            "allocates, writes and frees objects of its own. If each worker gets back the object that it "
            "freed,\n"
            "the workers write to one cache line for ever (passive false sharing), and all are slow.",
        .given_by_main = true,
    };
    return cache_line_main(&shape, argc, argv);
}
