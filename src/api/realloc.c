#include "api/names.h"
#include "heap/reallocate.h"

void *hak_realloc(void *p, size_t size) {
    if (p == NULL) {
        return hak_malloc(size);
    }
    if (size == 0) {
        hak_free(p);
        return NULL;
    }
    return reallocate(p, size);
}

ALSO_NAMED(realloc, hak_realloc, void *, (void *p, size_t size))
