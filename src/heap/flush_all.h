/* All that a heap holds back, returned.
 *
 * Promises that nothing is left but what comes meanwhile. By the heap's thread, or whoever has taken the
 * heap. Relies on magazines, remote buffers, parcels and runs.
 */
#ifndef HAKMEM_HEAP_FLUSH_ALL_H
#define HAKMEM_HEAP_FLUSH_ALL_H

#include "heap/magazine.h"

/* Returns everything that the heap holds back: magazines and stocks, remote buffer, parcels and kept runs.
 * Gives the number of blocks plus that of runs. */
size_t heap_flush_all(struct heap *heap, enum flush_cause cause);

#endif
