/* Moving pages to another place without copying them.
 *
 * Promises that a move which fails leaves what was to be moved as it was. Relies on mremap with
 * MREMAP_DONTUNMAP, which Linux has from 5.7 on; before, nothing is moved.
 */
#ifndef HAKMEM_OS_MOVE_H
#define HAKMEM_OS_MOVE_H

#include <stddef.h>

enum os_move {
    OS_MOVED,
    OS_NOT_MOVED,   /* `from` is as it was, `to` is usable, with any contents */
    OS_TARGET_LOST, /* `from` is as it was, but `to` is not ours any more */
};

/* Moves the pages at `from` to `to` (both committed, no overlap) without copying; `from` stays committed and
 * reads as zero. `bytes` is a multiple of OS_MOVE_GRANULE_BYTES. What the kernel keeps as several areas (a
 * block that was moved before and has grown since) is moved area by area, each a multiple of the granule;
 * areas that cannot be moved are copied. */
#define OS_MOVE_GRANULE_BYTES ((size_t)2 << 20)
enum os_move os_move_pages(void *from, void *to, size_t bytes);

#endif
