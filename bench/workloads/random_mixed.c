/* Small blocks of random sizes in random order. */
#include "churn.h"

int main(int argc, char **argv) {
    static const struct churn_shape shape = {
        .name = "random_mixed",
        .stands_for =
            "A program with many small objects of all sizes that live for random times: a language run-time, "
            "a\n"
            "parser, an index. The number of slots decides whether they fit the first cache (256), the "
            "second\n"
            "(8192), or none (400000, 4194304), where the places that the allocator chooses matter most.",
        .min = 16,
        .max = 1040,
        .slots = 8192,
        .operations = 5000000,
        .threads = 1,
        .touch = CHURN_TOUCH_WORD,
    };
    return churn_main(&shape, argc, argv);
}
