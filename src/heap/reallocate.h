/* Changing the size of a block, and what it has room for.
 *
 * Promises that what grows a little at a time is copied rarely, that large blocks keep their pages where they
 * can, and that misuse is found as in release. Relies on allocate, release, large, foreign.
 */
#ifndef HAKMEM_HEAP_REALLOCATE_H
#define HAKMEM_HEAP_REALLOCATE_H

#include <stddef.h>

/* As realloc with `p` not NULL and `size` not 0. */
void *reallocate(void *p, size_t size);

/* Usable bytes of any block; 0 for NULL. */
size_t block_usable_size(const void *p);

#endif
