/* Memory for the library's own tables: whole pages from the system, never from a heap.
 *
 * Promises memory that reads as zero and costs only the pages that are touched. Relies on os.
 */
#ifndef HAKMEM_OS_PAGES_H
#define HAKMEM_OS_PAGES_H

#include <stddef.h>

/* Memory of `bytes`, rounded up to whole pages; NULL if there is none. */
void *pages_take(size_t bytes);
/* As pages_take, but with memory behind all of it, so that whoever writes to it under a lock meets no fault.
 */
void *pages_take_touched(size_t bytes);
/* Gives back what pages_take(bytes) has returned; `pages` may be NULL. */
void pages_give(void *pages, size_t bytes);

#endif
