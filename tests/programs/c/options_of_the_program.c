/* Prints the options that it is asked for, after it has asked for all free memory to be kept, if the first
 * argument says so. With PROGRAM_SETS, it has settings of its own. */
#include <malloc.h>

#include "options.h"

#ifdef PROGRAM_SETS
#include <hakmem.h>

const char *hakmem_conf = PROGRAM_SETS;
#endif

int main(int argc, char **argv) {
    if (strcmp(argv[1], "keep") == 0)
        REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    for (int i = 2; i < argc; i++)
        print_option(argv[i]);
    return 0;
}
