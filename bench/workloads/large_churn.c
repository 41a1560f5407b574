/* Blocks from 64 KiB to many MiB. */
#include "churn.h"

int main(int argc, char **argv) {
    static const struct churn_shape shape = {
        .name = "large_churn",
        .stands_for =
            "Programs that take and drop large arrays: images, matrices, message bodies, columns of a table. "
            "What\n"
            "an allocator asks of the OS each time, and how much it keeps instead, decides the time.",
        .min = 64 * BENCH_KIB,
        .max = 2 * BENCH_MIB,
        .slots = 64,
        .operations = 50000,
        .threads = 1,
        .touch = CHURN_TOUCH_PAGES,
    };
    return churn_main(&shape, argc, argv);
}
