/* malloc and free of one size, as often as the argument says: what the fast path guard counts instructions
 * of. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s NUMBER_OF_PAIRS SIZE\n", argv[0]);
        return 2;
    }
    const long pairs = atol(argv[1]);
    const size_t size = strtoul(argv[2], NULL, 10);
    for (long i = 0; i < pairs; i++) {
        /* The compiler may leave out a malloc with its free unless the pointer escapes. */
        void *block = malloc(size);
        __asm__ volatile("" : "+r"(block) : : "memory");
        free(block);
    }
    return 0;
}
