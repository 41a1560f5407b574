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

/* A block of `size` bytes; NULL and ENOMEM if there is no memory or `size` is over REQUEST_MAX_BYTES. */
void *allocate(size_t size);
/* As allocate, in half the instructions where `size` is of the mid lane and its magazine has a block. */
void *allocate_mid(size_t size);
/* As allocate, with the block on a multiple of `alignment`, a power of two. */
void *allocate_aligned(size_t alignment, size_t size);
/* As allocate, with all `size` bytes zero. */
void *allocate_zeroed(size_t size);

/* Frees a block of this allocator's or of libc's and keeps errno; NULL is ignored. */
void release(void *p);
/* As release, for fast_release: `offset` is the page-map word of `p` xor the tag of `heap`, the calling
 * thread's, and no class offset. */
void release_of_others(void *p, uint32_t offset, struct heap *heap);

/* As realloc with `p` not NULL and `size` not 0. */
void *reallocate(void *p, size_t size);

/* Usable bytes of any block; 0 for NULL. */
size_t block_usable_size(const void *p);

/* Usable bytes of the block that a request for `size` would get; 0 if that is over REQUEST_MAX_BYTES. */
size_t request_good_size(size_t size);

#endif
