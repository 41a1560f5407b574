/* What deep_bind_host.c loads: allocates for the host, and frees what the host allocated. */
#include <stdlib.h>

void *give(size_t bytes);
void take(void *block);
void *its_malloc(void);

void *give(size_t bytes) {
    return malloc(bytes);
}

void take(void *block) {
    free(block);
}

void *its_malloc(void) {
    return (void *)malloc;
}
