#include "arena/page_map.h"

#include "os/os.h"
#include "os/report.h"

_Atomic uint32_t *page_map_words;
uintptr_t page_map_limit;
_Atomic uint32_t *region_bases;
uintptr_t region_bases_limit;

#define PAGE_MAP_WORDS ((uintptr_t)1 << (ADDRESS_BITS - SLAB_SHIFT))
#define PAGE_MAP_BYTES (PAGE_MAP_WORDS * sizeof(uint32_t))
#define REGION_BASES ((uintptr_t)1 << (ADDRESS_BITS - REGION_GRANULE_SHIFT))
#define REGION_BASES_BYTES (REGION_BASES * sizeof(uint32_t))

bool page_map_init(void) {
    if (region_bases_limit != 0) {
        return true;
    }
    /* Read-only until covered: mlockall and strict overcommit then see 8 GiB that cost nothing. */
    unsigned char *both = os_reserve_zeros(PAGE_MAP_BYTES + REGION_BASES_BYTES);
    if (both != NULL) {
        page_map_words = (_Atomic uint32_t *)(void *)both;
        page_map_limit = PAGE_MAP_WORDS;
        both += PAGE_MAP_BYTES;
    } else {
        report_fallback(FALLBACK_PAGE_MAP_BY_REGION, PAGE_MAP_BYTES);
        both = os_reserve_zeros(REGION_BASES_BYTES);
        if (both == NULL) {
            return false;
        }
    }
    region_bases = (_Atomic uint32_t *)(void *)both;
    region_bases_limit = REGION_BASES;
    return true;
}

static bool cover(_Atomic uint32_t *first, _Atomic uint32_t *end) {
    uintptr_t from = round_down((uintptr_t)first, OS_PAGE_BYTES);
    return os_commit((void *)from, round_up((uintptr_t)end, OS_PAGE_BYTES) - from);
}

bool page_map_cover(uintptr_t start, size_t bytes) {
    uintptr_t end = start + bytes;
    return (page_map_limit == 0 ||
            cover(&page_map_words[start >> SLAB_SHIFT], &page_map_words[end >> SLAB_SHIFT])) &&
           cover(&region_bases[start >> REGION_GRANULE_SHIFT], &region_bases[end >> REGION_GRANULE_SHIFT]);
}

size_t page_map_reserved_bytes(void) {
    return page_map_limit * sizeof(uint32_t) + region_bases_limit * sizeof(uint32_t);
}
