#include "arena/page_map.h"

#include "os/os.h"
#include "os/report.h"

_Atomic uint32_t *page_map_words;
uintptr_t page_map_limit;

#define PAGE_MAP_WORDS ((uintptr_t)1 << (ADDRESS_BITS - SLAB_SHIFT))
#define PAGE_MAP_BYTES (PAGE_MAP_WORDS * sizeof(uint32_t))

void page_map_init(void) {
    /* Read-only until covered: mlockall and strict overcommit then see 8 GiB that cost nothing. */
    void *words = os_reserve_zeros(PAGE_MAP_BYTES);
    if (words == NULL) {
        report_fallback(FALLBACK_PAGE_MAP_BY_REGION, PAGE_MAP_BYTES);
        return;
    }
    page_map_words = words;
    page_map_limit = PAGE_MAP_WORDS;
}

bool page_map_cover(uintptr_t start, size_t bytes) {
    if (page_map_limit == 0) {
        return true;
    }
    uintptr_t first = (uintptr_t)&page_map_words[start >> SLAB_SHIFT];
    uintptr_t last = (uintptr_t)&page_map_words[(start + bytes) >> SLAB_SHIFT];
    first = round_down(first, OS_PAGE_BYTES);
    last = round_up(last, OS_PAGE_BYTES);
    return os_commit((void *)first, last - first);
}
