/* Adopting slabs: before a heap gets a new slab, it looks for one that another heap uses in part.
 *
 * Memory that one thread has freed and does not come back for, because it ended, sleeps, or has gone on to
 * other sizes, would lie there while others take new pages. Promises to look at a few heaps for each new
 * slab, each time the next ones, so that this costs little however many there are. By the heap's thread.
 * Relies on bins.
 */
#ifndef HAKMEM_HEAP_ADOPT_H
#define HAKMEM_HEAP_ADOPT_H

#include "heap/heap.h"

/* Finds another heap with a partly-used slab of the class and makes that the current slab in `heap`, which
 * has none; false if a few heaps have none to give. */
bool adopt_slab(struct heap *heap, unsigned size_class);

#endif
