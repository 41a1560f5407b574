/* A program with a malloc of its own: what glibc's manual asks for, and nothing more. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(16) unsigned char pool[16 << 20];
static size_t used;

struct header {
    _Alignas(16) size_t size;
};

void *malloc(size_t size) {
    size_t whole = (sizeof(struct header) + size + 15) & ~(size_t)15;
    if (whole < size || whole > sizeof pool - used) {
        errno = ENOMEM;
        return NULL;
    }
    struct header *header = (struct header *)(void *)(pool + used);
    used += whole;
    header->size = size;
    return header + 1;
}

void free(void *p) {
    if (p != NULL && ((unsigned char *)p < pool || (unsigned char *)p >= pool + sizeof pool)) {
        abort();
    }
}

void *calloc(size_t count, size_t size) {
    void *p = malloc(count * size);
    return p == NULL ? NULL : memset(p, 0, count * size);
}

void *realloc(void *p, size_t size) {
    void *q = malloc(size);
    if (p != NULL && q != NULL) {
        size_t had = ((struct header *)p - 1)->size;
        memcpy(q, p, had < size ? had : size);
    }
    return q;
}

int main(void) {
    char *p = malloc(100);
    strcpy(p, "kept");
    p = reallocarray(p, 10, 100);
    int kept = p != NULL && strcmp(p, "kept") == 0;
    volatile size_t too_many = SIZE_MAX / 2;
    int refused = reallocarray(NULL, too_many, 3) == NULL && errno == ENOMEM;
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    if (free_sized != NULL) {
        free_sized(p, 1000);
    }
    puts(kept && refused ? "kept, refused" : "wrong");
    return 0;
}
