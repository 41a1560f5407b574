/* Allocating beyond the fast path: chooses the lane.
 *
 * Promises that a size has exactly one lane and that nothing falls from one to another silently. Argument
 * rules are the callers' (api/). Relies on heap, large, foreign.
 */
#ifndef HAKMEM_HEAP_ALLOCATE_H
#define HAKMEM_HEAP_ALLOCATE_H

#include "heap/thread.h"

#define REQUEST_MAX_BYTES ((size_t)PTRDIFF_MAX)

/* A block of `size` bytes; NULL and ENOMEM if there is no memory or `size` is over REQUEST_MAX_BYTES. */
void *allocate(size_t size);
/* As allocate, in half the instructions where `size` is of the mid lane and its magazine has a block. */
void *allocate_mid(size_t size);
/* As allocate, for more than MID_MAX_BYTES, and at most REQUEST_MAX_BYTES, that take the place of a shorter
 * block: rather where it can go on growing. */
void *allocate_grown(size_t size);
/* As allocate, with the block on a multiple of `alignment`, a power of two. */
void *allocate_aligned(size_t alignment, size_t size);
/* As allocate, with all `size` bytes zero. */
void *allocate_zeroed(size_t size);

/* What a request for `size` bytes gets that cannot be served: NULL and ENOMEM, and it is counted. */
COLD void *out_of_memory(size_t size);

/* Usable bytes of the block that a request for `size` would get; 0 if that is over REQUEST_MAX_BYTES. */
size_t request_good_size(size_t size);

#endif
