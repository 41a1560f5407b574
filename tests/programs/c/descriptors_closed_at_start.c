/* As a daemon does: closes every descriptor, and opens its own file under each number that anybody may still
 * use. */
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

enum { HIGHEST = 300 };

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    for (int i = 0; i < 5000; i++)
        *(volatile char *)malloc(10000) = 1; /* leaked on purpose: there is something to report */
    closefrom(0);
    REQUIRE(open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600) == 0);
    for (int fd = 1; fd < HIGHEST; fd++)
        REQUIRE(dup2(0, fd) == fd);
    REQUIRE(write(0, "mine", 4) == 4);
    return 0;
}
