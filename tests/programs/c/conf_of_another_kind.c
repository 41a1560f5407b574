/* The text itself where the library looks for a pointer to it. */
#include "check.h"

#ifndef TEXT
#define TEXT "retain_min=8M"
#endif
char hakmem_conf[] = TEXT;

int main(void) {
    REQUIRE(hakmem_conf[0] == TEXT[0]);
    return 0;
}
