/* Functions of malloc's family that call others of it by their standard names. A program that brings a malloc
 * of its own, and tools that put theirs in front, define the functions that glibc's manual asks for, and not
 * these: so these must come to theirs. The linker leaves the names open for that (replaceable.list). */
#include "api/names.h"
#include "heap/allocate.h"

#include <stdlib.h>

#ifdef HAKMEM_STANDARD_NAMES
HAK_EXPORT void *reallocarray(void *p, size_t n, size_t size);
/* The caller promises that the block has this size, and this alignment: this allocator does not need that. */
HAK_EXPORT void free_sized(void *p, size_t size);
HAK_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t size);

void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        return out_of_memory(SIZE_MAX);
    }
    return realloc(p, bytes);
}

void free_sized(void *p, size_t size) {
    (void)size;
    free(p);
}

void free_aligned_sized(void *p, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    free(p);
}
#endif
