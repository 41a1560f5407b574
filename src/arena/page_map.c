#include "arena/page_map.h"

#include "os/os.h"
#include "os/report.h"

_Atomic uint32_t *page_map_words;
uintptr_t page_map_limit;

#define PAGE_MAP_WORDS ((uintptr_t)1 << (ADDRESS_BITS - SLAB_SHIFT))
#define PAGE_MAP_BYTES (PAGE_MAP_WORDS * sizeof(uint32_t))

/* The map takes no more than this part of the address space that the process may have. */
#define LIMIT_PART 8

/* What the map and the table of regions take. relaxed everywhere: a statistic */
static _Atomic size_t reserved_bytes;

bool page_map_may_be_flat(size_t limit_bytes) {
    return limit_bytes / LIMIT_PART >= PAGE_MAP_BYTES;
}

void page_map_init(void) {
    static bool done;
    if (done) {
        return;
    }
    done = true;
    if (!page_map_may_be_flat(os_address_space_limit())) {
        report_fallback(FALLBACK_PAGE_MAP_BY_REGION, PAGE_MAP_BYTES);
        return;
    }
    /* Read-only until covered: under strict overcommit, 8 or 16 GiB then count for nothing. */
    unsigned char *both = os_reserve_zeros(PAGE_MAP_BYTES + REGION_BASES_BYTES);
    size_t map_bytes = PAGE_MAP_BYTES;
    if (both == NULL) {
        report_fallback(FALLBACK_PAGE_MAP_BY_REGION, PAGE_MAP_BYTES);
        both = os_reserve_zeros(REGION_BASES_BYTES);
        map_bytes = 0;
    }
    if (both != NULL) {
        page_map_words = (_Atomic uint32_t *)(void *)both;
        page_map_limit = map_bytes / sizeof *page_map_words;
        region_index_use_table(both + map_bytes);
        atomic_store_explicit(&reserved_bytes, map_bytes + REGION_BASES_BYTES, memory_order_relaxed);
    }
}

uintptr_t page_map_pages_begin(uintptr_t start) {
    return round_down((uintptr_t)&page_map_words[start >> SLAB_SHIFT], OS_PAGE_BYTES);
}

uintptr_t page_map_pages_end(uintptr_t end) {
    return round_up((uintptr_t)&page_map_words[end >> SLAB_SHIFT], OS_PAGE_BYTES);
}

bool page_map_cover(uintptr_t start, size_t bytes) {
    if (page_map_limit == 0) {
        return true;
    }
    uintptr_t from = page_map_pages_begin(start);
    uintptr_t to = page_map_pages_end(start + bytes);
    return os_commit((void *)from, to - from);
}

static uintptr_t pages_end(const struct region *r) {
    return page_map_pages_end(r->base + r->bytes);
}

/* The region of the lowest address from `from` on; NULL if there is none. */
static const struct region *lowest_from(const struct region *oldest, uintptr_t from) {
    const struct region *lowest = NULL;
    for (const struct region *r = oldest; r != NULL; r = r->next) {
        if (r->base >= from && (lowest == NULL || r->base < lowest->base)) {
            lowest = r;
        }
    }
    return lowest;
}

static void unmap(uintptr_t from, uintptr_t to) {
    if (from < to) {
        os_release((void *)from, to - from);
        atomic_fetch_sub_explicit(&reserved_bytes, to - from, memory_order_relaxed);
    }
}

COLD bool page_map_retreat(const struct region *oldest) {
    if (page_map_limit == 0) {
        return false;
    }
    /* relaxed, and whole, because others read it meanwhile: whoever sees it late finds the words of all
     * blocks where they were. */
    __atomic_store_n(&page_map_limit, 0, __ATOMIC_RELAXED);
    /* The first page stays: it has the word of NULL, which is freed at any moment. */
    uintptr_t at = (uintptr_t)page_map_words + OS_PAGE_BYTES;
    const struct region *r = lowest_from(oldest, 0);
    for (; r != NULL; r = lowest_from(oldest, r->base + r->bytes)) {
        unmap(at, page_map_pages_begin(r->base));
        at = max_size(at, pages_end(r));
    }
    unmap(at, (uintptr_t)page_map_words + PAGE_MAP_BYTES);
    return true;
}

size_t page_map_reserved_bytes(void) {
    return atomic_load_explicit(&reserved_bytes, memory_order_relaxed);
}
