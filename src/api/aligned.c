#include "api/names.h"
#include "heap/fast.h"
#include "os/os.h"

#include <errno.h>

void *hak_aligned_alloc(size_t alignment, size_t size) {
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return fast_allocate_aligned(alignment, size);
}

ALSO_NAMED(aligned_alloc, hak_aligned_alloc, void *, (size_t alignment, size_t size))

#ifdef HAKMEM_STANDARD_NAMES
HAK_EXPORT int posix_memalign(void **out, size_t alignment, size_t size);
HAK_EXPORT void *memalign(size_t alignment, size_t size);
HAK_EXPORT void *valloc(size_t size);
HAK_EXPORT void *pvalloc(size_t size);

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0) {
        return EINVAL;
    }
    int saved = errno; /* the result says it all */
    void *p = fast_allocate_aligned(alignment, size);
    errno = saved;
    if (p == NULL) {
        return ENOMEM;
    }
    *out = p;
    return 0;
}

/* As glibc: an alignment that is no power of two is rounded up to one. */
void *memalign(size_t alignment, size_t size) {
    if (alignment > REQUEST_MAX_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    return allocate_aligned((size_t)1 << log2_ceil(alignment), size);
}

void *valloc(size_t size) {
    return allocate_aligned(OS_PAGE_BYTES, size);
}

void *pvalloc(size_t size) {
    if (size > REQUEST_MAX_BYTES) {
        return out_of_memory(size);
    }
    return allocate_aligned(OS_PAGE_BYTES, round_up(size, OS_PAGE_BYTES));
}
#endif
