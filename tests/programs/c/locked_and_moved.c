/* Locks what memory it will have, and lets buffers grow again and again, which are moved because another is
 * behind them. Prints how many MiB are resident at last. */
#include "check.h"

#include <sys/mman.h>

enum { ROUNDS = 100 };
static const size_t BYTES = (size_t)6 << 20;

int main(void) {
    free(malloc(1));
    REQUIRE(mlockall(MCL_FUTURE) == 0 || errno == ENOMEM || errno == EPERM); /* a limit */
    for (int i = 0; i < ROUNDS; i++) {
        void *grows = filled(malloc(BYTES), BYTES);
        void *behind = filled(malloc(BYTES), BYTES);
        free(filled(realloc(grows, 2 * BYTES + BYTES / 8), 2 * BYTES));
        free(behind);
    }
    printf("%ld\n", status_kb("VmRSS:") >> 10);
    return 0;
}
