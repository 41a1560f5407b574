/* Freeing beyond the fast path: the way back from any pointer.
 *
 * Promises that every pointer is recognised as ours, libc's, or misuse. Relies on heap, large, foreign.
 */
#ifndef HAKMEM_HEAP_RELEASE_H
#define HAKMEM_HEAP_RELEASE_H

#include "heap/thread.h"

/* Frees a block of this allocator's or of libc's and keeps errno; NULL is ignored. */
void release(void *p);
/* As release, for fast_release: `offset` is the page-map word of `p` xor the tag of `heap`, the calling
 * thread's, and no class offset. */
void release_of_others(void *p, uint32_t offset, struct heap *heap);

#endif
