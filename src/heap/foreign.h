/* Pointers and requests that are not HAKMEM's: libc's allocator, reached without dlsym.
 *
 * Promises to hand a pointer on only where it looks like a block of libc's (a look at its header, at what
 * stands beside it, and at /proc/self/maps, or where that cannot be read, at what the kernel lets be read),
 * and to abort with a clear line otherwise. Relies on glibc's __libc_ names,
 * which a statically linked program does not have.
 */
#ifndef HAKMEM_HEAP_FOREIGN_H
#define HAKMEM_HEAP_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the functions of libc's allocator can be reached. */
bool foreign_libc_present(void);

/* libc's own functions, for HAKMEM_FORCE_LIBC_ALLOC. */
void *foreign_malloc(size_t size);
void *foreign_calloc(size_t count, size_t size);
void *foreign_memalign(size_t alignment, size_t size);

/* For a pointer that no region holds: hands it to libc, or aborts if it looks like no block of libc's.
 * `trusted` (libc forced) leaves out the look. */
void foreign_free(void *p, bool trusted);
void *foreign_realloc(void *p, size_t size, bool trusted);
size_t foreign_usable_size(const void *p, bool trusted);

#endif
