/* Blocks of larger classes for requests of the mid lane.
 *
 * Each class has its times of many blocks, and memory for all of them at once is seldom needed. A class whose
 * magazine is empty takes a block of a lender, a larger class that has one free, before a page is touched
 * that never was. When the block is freed it goes to the lender, so that the next request of the class
 * borrows again, on the slow path: where that goes on, the class gets a few blocks of its own.
 *
 * Promises that these take UNBORROWED_BYTES and a refill of a heap at most. By the heap's owner. Relies on
 * bins and stocks.
 */
#ifndef HAKMEM_HEAP_BORROW_H
#define HAKMEM_HEAP_BORROW_H

#include "heap/heap.h"

/* Blocks in a row that a class borrows before it is refilled, of new pages, too; and what such refills may
 * bring. */
#define BORROWED_IN_A_ROW 64
#define UNBORROWED_BYTES ((size_t)192 << 10)

/* Requests for blocks from this size on may get one of a larger class. */
#define BORROWER_BYTES 2048
/* Larger classes whose magazines are looked at before the class's own slabs, which take longer. */
#define LENDERS_BEFORE_SLABS 1
/* Larger classes whose magazines, and whose slabs, are looked at before a page is touched that never was. */
#define LENDERS_BEFORE_NEW_PAGES 4
#define SLAB_LENDERS 2

/* The smallest spaced class whose blocks are larger. */
static inline unsigned borrow_first_lender(unsigned size_class) {
    return size_class < SPACED_CLASSES ? size_class + 1 : size_class - EXACT_CLASSES;
}

/* Whether the class, whose magazine is empty, is to borrow now if it can. */
static inline bool borrow_is_due(struct heap *heap, unsigned size_class) {
    if (size_classes[size_class].bytes < BORROWER_BYTES) {
        return false;
    }
    struct magazine *m = &heap->magazines[size_class];
    if (m->borrowed < BORROWED_IN_A_ROW) {
        m->borrowed++;
        return true;
    }
    return heap->unborrowed_bytes >= UNBORROWED_BYTES;
}

/* A refill has brought `n` blocks of the class. */
static inline void borrow_note_refill(struct heap *heap, unsigned size_class, size_t n) {
    struct magazine *m = &heap->magazines[size_class];
    if (m->borrowed == BORROWED_IN_A_ROW) {
        heap->unborrowed_bytes += n * size_classes[size_class].bytes;
    }
    m->borrowed = 0;
}

/* A block from the magazines of the next `lenders` larger classes, or NULL. */
static inline void *borrow(struct heap *heap, unsigned size_class, unsigned lenders) {
    unsigned c = borrow_first_lender(size_class);
    for (unsigned end = (unsigned)min_size(c + lenders, SPACED_CLASSES); c < end; c++) {
        struct magazine *m = &heap->magazines[c];
        if (m->top != m->base) {
            return *--m->top;
        }
    }
    return NULL;
}

/* A block from the stocks or slabs of the next SLAB_LENDERS larger classes, whose magazines are empty, or
 * NULL. */
void *borrow_of_slabs(struct heap *heap, unsigned size_class);

/* A block from more larger classes, or NULL: to be asked before a page is touched that never was. Small
 * programs, of which few classes have a magazine, do not come to borrow_of_slabs. */
static inline void *borrow_instead_of_new(struct heap *heap, unsigned size_class) {
    void *block = borrow(heap, size_class, LENDERS_BEFORE_NEW_PAGES);
    if (block != NULL) {
        return block;
    }
    const struct magazine *m = &heap->magazines[borrow_first_lender(size_class)];
    _Static_assert(SLAB_LENDERS == 2,
                   "both are looked at here; behind the last spaced class is an exact one");
    return m[0].base != NULL || m[1].base != NULL ? borrow_of_slabs(heap, size_class) : NULL;
}

#endif
