/* Memory for the profile's own tables: whole pages from the system, never from a heap.
 *
 * Promises memory that reads as zero and costs only the pages that are touched. Relies on os.
 */
#ifndef HAKMEM_PROFILE_PAGES_H
#define HAKMEM_PROFILE_PAGES_H

#include "base/bits.h"
#include "os/os.h"

/* NULL if there is none. */
static inline void *pages_take(size_t bytes) {
    bytes = round_up(bytes, OS_PAGE_BYTES);
    void *pages = os_reserve(bytes, OS_PAGE_BYTES);
    if (pages != NULL && !os_commit(pages, bytes)) {
        os_release(pages, bytes);
        pages = NULL;
    }
    return pages;
}

static inline void pages_give(void *pages, size_t bytes) {
    if (pages != NULL) {
        os_release(pages, round_up(bytes, OS_PAGE_BYTES));
    }
}

#endif
