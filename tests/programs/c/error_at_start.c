/* errno is 0 when main begins. */
#include <errno.h>

int main(void) {
    return errno;
}
