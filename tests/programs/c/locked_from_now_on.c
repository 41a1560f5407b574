/* Locks what memory it will have, but not what it has, and takes 100 MiB in blocks of two lanes. Prints how
 * many MiB less than that are locked then. */
#include "check.h"

#include <sys/mman.h>

enum { MID = 1000, HUGE = 10 };
static const size_t MID_BYTES = (size_t)50 << 10;
static const size_t HUGE_BYTES = (size_t)5 << 20;

int main(void) {
    free(malloc(1));
    if (mlockall(MCL_FUTURE) != 0) {
        REQUIRE(errno == ENOMEM || errno == EPERM); /* a limit: then no program can */
        puts("0");
        return 0;
    }
    for (int i = 0; i < MID + HUGE; i++) {
        size_t bytes = i < MID ? MID_BYTES : HUGE_BYTES;
        filled(malloc(bytes), bytes);
    }
    printf("%ld\n", (long)((MID * MID_BYTES + HUGE * HUGE_BYTES) >> 20) - (status_kb("VmLck:") >> 10));
    return 0;
}
