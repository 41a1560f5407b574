/* Questions about sizes, and giving memory back on request. */
#include "api/keep.h"
#include "api/libc_serves.h"
#include "api/names.h"
#include "base/version.h"
#include "heap/allocate.h"
#include "heap/collect.h"
#include "heap/event.h"
#include "heap/flush_all.h"
#include "heap/reallocate.h"
#include "heap/runtime.h"

#include <errno.h>

const char *hak_version(void) {
    return VERSION;
}

size_t hak_usable_size(const void *p) {
    return block_usable_size(p);
}

ALSO_NAMED(malloc_usable_size, hak_usable_size, size_t, (const void *p))

size_t hak_good_size(size_t size) {
    if (UNLIKELY(runtime_libc_forced())) {
        return size > REQUEST_MAX_BYTES ? 0 : size; /* libc does not say how much more it gives */
    }
    return request_good_size(size);
}

int hak_size_class_count(void) {
    return SPACED_CLASSES;
}

int hak_tiny_class_count(void) {
    return TINY_CLASSES;
}

COLD int hak_size_class_of(size_t size) {
    runtime_start();
    if (size > MID_MAX_BYTES) {
        errno = EINVAL;
        return -1;
    }
    return (int)size_class_of(size);
}

static const struct size_class *class_or_error(int size_class) {
    runtime_start();
    if (size_class < 0 || size_class >= SPACED_CLASSES) {
        errno = EINVAL;
        return NULL;
    }
    return &size_classes[size_class];
}

COLD size_t hak_size_class_bytes(int size_class) {
    const struct size_class *c = class_or_error(size_class);
    return c == NULL ? 0 : c->bytes;
}

COLD size_t hak_size_class_slab_bytes(int size_class) {
    const struct size_class *c = class_or_error(size_class);
    return c == NULL ? 0 : c->run_slabs * SLAB_BYTES;
}

COLD int hak_tiny_magazine_flush(int size_class) {
    if (size_class < 0 || size_class >= TINY_CLASSES) {
        errno = EINVAL;
        return -1;
    }
    struct heap *heap = thread_heap_now();
    return heap == &heap_of_no_thread ? 0 : (int)heap_flush_magazine(heap, (unsigned)size_class, FLUSH_API);
}

size_t hak_tiny_magazine_flush_all(void) {
    struct heap *heap = thread_heap_now();
    return heap == &heap_of_no_thread ? 0 : heap_flush_all(heap, FLUSH_API);
}

size_t hak_collect(void) {
    size_t bytes = heap_give_back();
    heap_event(HEAP_EVENT_ON_REQUEST);
    return bytes;
}

#ifdef HAKMEM_STANDARD_NAMES
HAK_EXPORT int malloc_trim(size_t pad);
HAK_EXPORT int mallopt(int parameter, int value);

/* `pad` is how much to leave at the top of libc's heap; this allocator has no such top. */
COLD int malloc_trim(size_t pad) {
    int (*of_libc)(size_t);
    if (libc_serves("malloc_trim", (void *)&of_libc)) {
        return of_libc(pad);
    }
    return hak_collect() > 0;
}

/* As in malloc.h, which is not included because it declares these functions, too. */
#define M_TRIM_THRESHOLD (-1)

/* Accepts libc's parameters, so that programs go on, but they tune libc's algorithm and have no effect here.
 * Except for one wish: that free memory is never given back (M_TRIM_THRESHOLD below 0). */
COLD int mallopt(int parameter, int value) {
    int (*of_libc)(int, int);
    if (libc_serves("mallopt", (void *)&of_libc)) {
        return of_libc(parameter, value);
    }
    if (parameter == M_TRIM_THRESHOLD) {
        keep_free_memory(KEEP_ASKED, value < 0);
    }
    return 1;
}
#endif
