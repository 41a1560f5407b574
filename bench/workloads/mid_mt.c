/* Blocks of 8 to 32 KiB in several threads. */
#include "churn.h"

int main(int argc, char **argv) {
    static const struct churn_shape shape = {
        .name = "mid_mt",
        .stands_for = "Threads that each work on buffers of several pages: network and file buffers, pages "
                      "of a database,\n"
                      "rows of images. 16 slots a thread fit the second cache, 512 do not.",
        .min = 8 * BENCH_KIB,
        .max = 32 * BENCH_KIB,
        .slots = 512,
        .operations = 500000,
        .threads = 2,
        .touch = CHURN_TOUCH_PAGES,
    };
    return churn_main(&shape, argc, argv);
}
