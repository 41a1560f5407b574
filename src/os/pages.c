#include "os/pages.h"

#include "base/bits.h"
#include "os/os.h"

COLD void *pages_take(size_t bytes) {
    bytes = round_up(bytes, OS_PAGE_BYTES);
    void *pages = os_reserve(bytes, OS_PAGE_BYTES);
    if (pages != NULL && !os_commit(pages, bytes)) {
        os_release(pages, bytes);
        pages = NULL;
    }
    return pages;
}

COLD void *pages_take_touched(size_t bytes) {
    char *pages = pages_take(bytes);
    if (pages != NULL && !os_populate(pages, round_up(bytes, OS_PAGE_BYTES))) {
        for (size_t at = 0; at < bytes; at += OS_PAGE_BYTES) {
            *(volatile char *)(pages + at) = 0;
        }
    }
    return pages;
}

COLD void pages_give(void *pages, size_t bytes) {
    if (pages != NULL) {
        os_release(pages, round_up(bytes, OS_PAGE_BYTES));
    }
}
