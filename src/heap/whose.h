/* Whose block a pointer is, by its page-map word alone.
 *
 * Promises that every pointer is recognised as a block of a size class, a large one, misuse, or none of ours,
 * and that no slab's header is read for it. Relies on the page map and the regions.
 */
#ifndef HAKMEM_HEAP_WHOSE_H
#define HAKMEM_HEAP_WHOSE_H

#include "arena/page_map.h"
#include "arena/region.h"
#include "heap/heap.h"

/* OURS_STRAY: in a region, but where no block begins. */
enum whose { OURS_CLASS, OURS_LARGE, OURS_STRAY, NOT_OURS };

static inline enum whose whose(const void *p, uint32_t word) {
    if (LIKELY(word != 0)) {
        return page_word_is_class(word) ? OURS_CLASS : OURS_LARGE;
    }
    return region_of_any((uintptr_t)p) != NULL ? OURS_STRAY : NOT_OURS;
}

/* Bytes of the block if it surely is one of a size class, or 0. The slab's header is not read, so a block
 * that was never handed out passes, too: it is found when it comes back, and nothing is lost by then. */
static inline size_t sure_bytes(const void *p, uint32_t word) {
    const struct size_class *c = &size_classes[page_word_class(word)];
    bool sure = page_word_is_class(word) && size_class_surely_begins_at(c, (uintptr_t)p);
    return LIKELY(sure) ? c->bytes : 0;
}

#endif
