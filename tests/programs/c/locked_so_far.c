/* Locks what memory it has, but not what it will have, and takes a block that is larger than all that is
 * reserved by then. Prints by how much it has grown, in MiB, when it has touched one byte of it. */
#include "check.h"

#include <sys/mman.h>

#define LARGE_BYTES ((size_t)300 << 20)

int main(void) {
    REQUIRE(mlockall(MCL_CURRENT) == 0 || errno == ENOMEM || errno == EPERM); /* a limit */
    long start = status_kb("VmRSS:");
    char *block = calloc(LARGE_BYTES, 1);
    REQUIRE(block != NULL);
    block[0] = 1;
    printf("%ld\n", (status_kb("VmRSS:") - start) >> 10);
    return 0;
}
