/* Both directions between a magazine and the slabs.
 *
 * Promises that a refill brings no more than the magazine has room for, and that what is put into full ones
 * ends in a slab of whatever heap it belongs to. By the heap's thread, entered (heap_enter) or not. Relies on
 * bins, stocks and parcels.
 */
#ifndef HAKMEM_HEAP_MAGAZINE_H
#define HAKMEM_HEAP_MAGAZINE_H

#include "heap/heap.h"

enum flush_cause { FLUSH_API, FLUSH_THREAD_EXIT, FLUSH_RECLAIM, FLUSH_IDLE };

/* Fills the empty magazine and takes one block off it or, if `may_borrow`, perhaps takes one of a larger
 * class; NULL if there is no memory. */
void *heap_refill(struct heap *heap, unsigned size_class, bool may_borrow);
/* Makes room in the full magazine by growing it, or by moving its oldest blocks to the stock or their slabs.
 * A magazine that can get no array stays without room. */
void heap_make_room(struct heap *heap, unsigned size_class);
/* Returns all blocks in the magazine to their slabs and, but for FLUSH_IDLE, those in the stock of its class;
 * gives the number of blocks. */
size_t heap_flush_magazine(struct heap *heap, unsigned size_class, enum flush_cause cause);

#endif
