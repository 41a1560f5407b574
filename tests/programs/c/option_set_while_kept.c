/* Has free memory kept, sets an option that decides what is kept, and has it kept no more. Prints the option
 * and another one, which it has left alone: as they are then. */
#include <malloc.h>

#include "options.h"

int main(void) {
    REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    set_option("decay_ms", "100");
    REQUIRE(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1);
    print_option("decay_ms");
    print_option("retain_min");
    return 0;
}
