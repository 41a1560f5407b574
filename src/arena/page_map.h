/* The page map: from any address to the one word that says whose it is.
 *
 * A word stands for 64 KiB: owner << 13 | offset of the size class's magazine in a heap. 0 means that
 * no block begins there. Promises that a look-up is one load for every address below the limit, ours
 * or not. Relies on a flat reservation of 4 bytes for each slab of the address space; where that is too much
 * (RLIMIT_AS, mlockall) the limit is 0, and the words are found by way of the region.
 */
#ifndef HAKMEM_ARENA_PAGE_MAP_H
#define HAKMEM_ARENA_PAGE_MAP_H

#include "arena/layout.h"
#include "arena/region.h"
#include "base/bits.h"

#include <stdatomic.h>

#define PAGE_WORD_OWNER_SHIFT 13
/* The owner in the word of a large block, and of a huge one; others are numbers of heaps. */
#define PAGE_OWNER_LARGE 0x7FFFFu
#define PAGE_OWNER_HUGE 0x7FFFEu

/* Two variables and not a struct: the fast path of free then addresses each directly. */
extern INTERNAL _Atomic uint32_t *page_map_words;
/* Number of words; 0 where the map is not flat. Not atomic, for the fast path's compare would be a load more;
 * it is written whole, and whoever sees it late finds the words of all blocks where they were: see
 * page_map_retreat. */
extern INTERNAL uintptr_t page_map_limit;

static inline uint32_t page_word(uint32_t owner, uint32_t class_offset) {
    return owner << PAGE_WORD_OWNER_SHIFT | class_offset;
}

static inline uint32_t page_word_owner(uint32_t word) {
    return word >> PAGE_WORD_OWNER_SHIFT;
}

/* Whether the word is that of a block of a size class. */
static inline bool page_word_is_class(uint32_t word) {
    const uint32_t first = page_word(1, 0);
    return word - first < page_word(PAGE_OWNER_HUGE, 0) - first;
}

/* Reserves the map, and the table of regions with it, if there is address space enough. Called before the
 * first region is made; further calls do nothing. */
void page_map_init(void);
/* Makes the map's words for a region of `bytes` at `start` writable, if the map is flat. False if the OS
 * refuses. */
bool page_map_cover(uintptr_t start, size_t bytes);
/* Whether a flat map is little enough of `limit_bytes` of address space. */
bool page_map_may_be_flat(size_t limit_bytes);
/* Gives up the flat map: unmaps what of it covers no region, of which `oldest` is the first, because address
 * space is scarce, or shall be locked. Look-ups take a few loads more from then on. False if the map is not
 * flat. Arena lock held. A thread that frees another allocator's block at this very moment may read what is
 * gone. */
bool page_map_retreat(const struct region *oldest);

/* The pages of a flat map that have the words of addresses from `start` up to `end`. */
uintptr_t page_map_pages_begin(uintptr_t start);
uintptr_t page_map_pages_end(uintptr_t end);

/* Address space that the map and the table of regions take. */
size_t page_map_reserved_bytes(void);

/* The word of any address; NULL if the map is not flat and the address lies in no region. */
static inline _Atomic uint32_t *page_map_word(uintptr_t address) {
    uintptr_t index = address >> SLAB_SHIFT;
    if (LIKELY(index < page_map_limit)) {
        return &page_map_words[index];
    }
    return region_page_word(address);
}

/* What the word of any address says; 0 if there is none. relaxed: a thread that holds a block got it, and
 * with it the word, through the program's own synchronisation; for any other pointer every answer is as
 * good */
static inline uint32_t page_map_get(const void *p) {
    uintptr_t index = (uintptr_t)p >> SLAB_SHIFT;
    if (LIKELY(index < page_map_limit)) {
        return atomic_load_explicit(&page_map_words[index], memory_order_relaxed);
    }
    _Atomic uint32_t *word = region_page_word((uintptr_t)p);
    return word == NULL ? 0 : atomic_load_explicit(word, memory_order_relaxed);
}

/* Sets the `slabs` words from `start` on, which lies in a region. relaxed: as in page_map_get */
static inline void page_map_set(uintptr_t start, size_t slabs, uint32_t value) {
    _Atomic uint32_t *word = page_map_word(start);
    for (size_t i = 0; i < slabs; i++) {
        atomic_store_explicit(&word[i], value, memory_order_relaxed);
    }
}

#endif
