/* Allocating and freeing beyond the fast path: chooses the lane, and the way back from any pointer.
 *
 * Promises that a size has exactly one lane and that nothing falls from one to another silently; that
 * every pointer is recognised as ours, libc's, or misuse. Argument rules are the callers' (api/).
 * Relies on heap, large, foreign.
 */
#ifndef HAKMEM_HEAP_ALLOCATE_H
#define HAKMEM_HEAP_ALLOCATE_H

#include "heap/thread.h"

#define REQUEST_MAX_BYTES ((size_t)PTRDIFF_MAX)

/* NULL and ENOMEM if there is no memory or `size` is over REQUEST_MAX_BYTES. */
void *allocate(size_t size);
/* The same, in half the instructions where a magazine has a block of the mid lane. */
void *allocate_mid(size_t size);
/* `alignment` is a power of two. */
void *allocate_aligned(size_t alignment, size_t size);
void *allocate_zeroed(size_t size);

/* Keeps errno. NULL is ignored. */
void release(void *p);
/* The same where the page-map word, combined with the tag of the calling thread's heap, is `offset`, and no
 * class offset. */
void release_of_others(void *p, uint32_t offset, struct heap *heap);

/* As realloc with `p` not NULL and `size` not 0. */
void *reallocate(void *p, size_t size);

/* Usable bytes of any block; 0 for NULL. */
size_t block_usable_size(const void *p);

/* What a request would get; 0 over REQUEST_MAX_BYTES. */
size_t request_good_size(size_t size);

#endif
