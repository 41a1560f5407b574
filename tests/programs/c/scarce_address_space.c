/* Takes all that the address space's limit leaves, in blocks of one size after the other, with blocks of
 * libc's own beside them. Prints the least of these in KiB. */
#include "check.h"

extern void *__libc_malloc(size_t size);

typedef struct link {
    struct link *next;
} link_t;

static size_t take_all(size_t size) {
    link_t *list = NULL;
    size_t count = 0;
    for (errno = 0;; count++) {
        unsigned char *block = malloc(size);
        if (!block)
            break;
        block[size - 1] = 0x5a;
        *(link_t *)block = (link_t){.next = list};
        list = (link_t *)block;
    }
    REQUIRE(errno == ENOMEM);
    while (list) {
        link_t *next = list->next;
        REQUIRE(((unsigned char *)list)[size - 1] == 0x5a);
        free(list);
        list = next;
    }
    return count * size;
}

int main(void) {
    static const size_t sizes[] = {64, 1000, 20000, 100000};
    void *others[8];
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < 8; i++)
        others[i] = __libc_malloc(i % 2 ? 200000 : 100);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = take_all(sizes[i]);
        REQUIRE(bytes > 0);
        least = bytes < least ? bytes : least;
        free(others[i]);
    }
    for (size_t i = 4; i < 8; i++)
        free(others[i]);
    printf("%zu\n", least >> 10);
    return 0;
}
