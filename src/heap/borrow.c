#include "heap/borrow.h"

#include "heap/bins.h"
#include "heap/cached.h"
#include "heap/stock.h"

/* Larger classes whose magazines, and whose slabs, are looked at before a page is touched that never was. */
#define LENDERS_BEFORE_NEW_PAGES 4
#define SLAB_LENDERS_BEFORE_NEW_PAGES 2
/* Blocks that are brought from a slab of a larger class at once. */
#define LENT_BLOCKS 4

/* A block from the stocks or slabs of the next `lenders` larger classes, whose magazines are empty, or NULL.
 */
static void *borrow_of_slabs(struct heap *heap, unsigned size_class, unsigned lenders) {
    unsigned c = borrow_first_lender(size_class);
    for (unsigned end = (unsigned)min_size(c + lenders, SPACED_CLASSES); c < end; c++) {
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

void *borrow_instead_of_new(struct heap *heap, unsigned size_class) {
    void *block = borrow(heap, size_class, LENDERS_BEFORE_NEW_PAGES);
    return block != NULL ? block : borrow_of_slabs(heap, size_class, SLAB_LENDERS_BEFORE_NEW_PAGES);
}
