/* What a thread caches that lives on its caches.
 *
 * It returns nothing, and so comes to no look for holes (relief.h), and the blocks that it caches keep the
 * pages of others.
 *
 * Promises to empty magazines of the tiny lane only where these keep much, and once, until RETAIN_MIN more is
 * free than was left then. Relies on relief and magazines.
 */
#ifndef HAKMEM_HEAP_IDLE_CACHES_H
#define HAKMEM_HEAP_IDLE_CACHES_H

#include "heap/heap.h"

/* Ticks of the decay, of half of DECAY_MS each, after which what was free throughout them is not breathed. */
#define IDLE_CACHES_TICKS 2

/* Owner: to be called now and then while at least IDLE_CACHES_TICKS in a row (decay.h) found most of what is
 * free in slabs idle. Empties a few magazines with each call, if more is free than may be and they keep much
 * of it. */
void idle_caches_empty(struct heap *self);

#endif
