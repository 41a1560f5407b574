#include "api/names.h"
#include "heap/fast.h"

void *hak_malloc(size_t size) {
    return fast_allocate(size);
}

void hak_free(void *p) {
    fast_release(p);
}

ALSO_NAMED(malloc, hak_malloc, void *, (size_t size))
ALSO_NAMED(free, hak_free, void, (void *p))
ALSO_NAMED(cfree, hak_free, void, (void *p))
