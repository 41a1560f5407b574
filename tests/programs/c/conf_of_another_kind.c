/* The text itself where the library looks for a pointer to it. */
#include "check.h"

char hakmem_conf[] = "retain_min=8M";

int main(void) {
    REQUIRE(hakmem_conf[0] == 'r');
    return 0;
}
