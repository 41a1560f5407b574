#include "api/names.h"
#include "heap/allocate.h"

#include <errno.h>

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

#ifdef HAKMEM_STANDARD_NAMES
HAK_EXPORT void *reallocarray(void *p, size_t n, size_t size);

void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return hak_realloc(p, bytes);
}
#endif
