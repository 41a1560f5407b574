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

#ifdef HAKMEM_STATIC
/* One function of each file of the family, so that a static link takes them all: of an archive it takes only
 * the members that something refers to by then, and libc would supply the rest of the family later, and a
 * second malloc with it. */
void hak_cxx_report(const char *message);
void free_sized(void *p, size_t size);
__attribute__((used)) static const void *const whole_family[] = {
    (const void *)hak_calloc,        /* calloc.c */
    (const void *)hak_realloc,       /* realloc.c */
    (const void *)free_sized,        /* forwarded.c */
    (const void *)hak_aligned_alloc, /* aligned.c */
    (const void *)hak_collect,       /* introspect.c */
    (const void *)hak_cxx_report,    /* mallinfo.c */
    (const void *)hak_profile_start, /* profile.c */
};
#endif
