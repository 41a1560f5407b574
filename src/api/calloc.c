#include "api/names.h"
#include "heap/fast.h"

#include <string.h>

void *hak_calloc(size_t n, size_t size) {
    size_t bytes;
    if (UNLIKELY(__builtin_mul_overflow(n, size, &bytes))) {
        return out_of_memory(SIZE_MAX);
    }
    if (UNLIKELY(bytes > TINY_MAX_BYTES)) {
        return allocate_zeroed(bytes);
    }
    void *p = fast_allocate(bytes);
    return LIKELY(p != NULL) ? memset(p, 0, bytes) : NULL;
}

ALSO_NAMED(calloc, hak_calloc, void *, (size_t n, size_t size))
