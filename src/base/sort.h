/* Sorting in place.
 *
 * Promises to allocate nothing, as libc's qsort may, and n log n steps whatever the order was: a heapsort
 * (Williams, "Algorithm 232", 1964). Relies on nothing.
 */
#ifndef HAKMEM_BASE_SORT_H
#define HAKMEM_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

/* Puts `count` items of `bytes` each in the order that `before` says, which is true where its first item is
 * to stand in front of its second. Equal items may change places. */
void sort_items(void *items, size_t count, size_t bytes, bool (*before)(const void *, const void *));

#endif
