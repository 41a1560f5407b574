/* Blocks above the slab lanes: large (a run of slabs in one superslab) and huge (a run of superslabs).
 *
 * Promises that a block starts on a slab, that its usable size is the request rounded up to pages, and
 * that realloc keeps it in place or moves its pages where it can. Each call takes the arena's lock
 * once. Relies on arena and page map.
 */
#ifndef HAKMEM_HEAP_LARGE_H
#define HAKMEM_HEAP_LARGE_H

#include "heap/heap.h"

/* `heap` counts and may be NULL. `alignment` is a power of two, `size` at most PTRDIFF_MAX. `*zero`
 * says whether the block reads as zero. NULL if there is no memory. */
void *large_allocate(struct heap *heap, size_t size, size_t alignment, bool *zero);

/* `p` has a page-map word of a large or huge block. Aborts on misuse. */
void large_free(struct heap *heap, void *p);
size_t large_usable_size(const void *p);

/* Whether the profile knows the block. */
bool large_is_sampled(const void *p);
void large_set_sampled(void *p, bool sampled);

/* The same block with room for `size`, in place or with its pages moved; NULL if it must be copied, as
 * to another lane. */
void *large_resize(struct heap *heap, void *p, size_t size);

/* `p` lies in a region but no block begins there: aborts with what can be said of it. */
_Noreturn void large_report_stray(const char *action, const void *p);

#endif
