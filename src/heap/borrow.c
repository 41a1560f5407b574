#include "heap/borrow.h"

#include "heap/bins.h"
#include "heap/cached.h"
#include "heap/stock.h"

/* Blocks that are brought from a slab of a larger class at once. */
#define LENT_BLOCKS 4

void *borrow_of_slabs(struct heap *heap, unsigned size_class) {
    unsigned c = borrow_first_lender(size_class);
    for (unsigned end = (unsigned)min_size(c + SLAB_LENDERS, SPACED_CLASSES); c < end; c++) {
        struct magazine *m = &heap->magazines[c];
        if (m->base != m->end) {
            size_t want = min_size(magazine_capacity(m), LENT_BLOCKS);
            size_t n = stock_has_blocks(heap, c) ? stock_take(heap, c, m->base, want) : 0;
            n = n > 0 ? n : bin_take_used(heap, c, m->base, want);
            if (n > 0) {
                count_refill(&heap->counters, n);
                cached_add(heap, c, (int64_t)n);
                m->seen = MAGAZINE_SEEN_NEVER;
                m->top = m->base + (n - 1);
                return *m->top;
            }
        }
    }
    return NULL;
}
