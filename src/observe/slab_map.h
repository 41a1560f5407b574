/* Where every slab is and how full it is, as JSON (docs/statistics.md).
 *
 * Promises to hold the arena's lock for a few superslabs at a time, never while it writes. Relies on
 * arena/walk.h.
 */
#ifndef HAKMEM_OBSERVE_SLAB_MAP_H
#define HAKMEM_OBSERVE_SLAB_MAP_H

/* 0, or -1 with errno. */
int slab_map_write(int fd);

#endif
