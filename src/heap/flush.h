/* Blocks back to their slabs.
 *
 * Promises that what is no block, or was freed twice, is found and ends the process before it counts as free.
 * Any thread; `heap` is the caller's own, or NULL. Relies on slab, bins and relief.
 */
#ifndef HAKMEM_HEAP_FLUSH_H
#define HAKMEM_HEAP_FLUSH_H

#include "heap/heap.h"

/* Returns `n` blocks of any classes to their slabs. No heap's lock held. */
void heap_return_blocks(struct heap *heap, void *const *blocks, size_t n);
/* As heap_return_blocks, for blocks of the class; where one is of another class, it takes longer. */
void heap_return_class(struct heap *heap, unsigned size_class, void *const *blocks, size_t n);
/* Aborts unless `block` is the start of a block that was handed out; `action` begins the message. */
void heap_check_block(const char *action, const void *block);

#endif
