#include "heap/surplus.h"

#include "heap/cached.h"
#include "heap/flush.h"
#include "heap/heap_table.h"
#include "heap/reclaim.h"
#include "heap/registry.h"
#include "heap/slack.h"
#include "options/options.h"

/* What all threads may cache together, but for as much as a magazine of small blocks holds for each; more
 * where more may be free anyway. */
#define CACHED_BYTES ((size_t)64 << 20)

static int64_t cached_most(void) {
    size_t part = max_size(arena_share_bytes(), CACHED_BYTES) / heap_count_in_use();
    return (int64_t)max_size(part, option_number(OPTION_MAGAZINE_BYTES));
}

static void return_half(struct heap *heap) {
    for (unsigned c = TINY_CLASSES; c < SIZE_CLASSES; c++) {
        struct magazine *m = &heap->magazines[c];
        size_t oldest = (magazine_count(m) + 1) / 2;
        if (oldest > 0) {
            count_flush(&heap->counters, &heap->counters.flushes_surplus, oldest);
            heap_return_class(heap, c, m->base, oldest);
            magazine_drop_oldest(m, oldest);
            cached_add(heap, c, -(int64_t)oldest);
        }
    }
}

RARE void surplus_return(struct heap *heap) {
    heap_enter(heap);
    if (cached_from(heap, TINY_CLASSES) > cached_most()) {
        return_half(heap);
    }
    if (heap_count_in_use() > HEAPS_FEW && slack_exceeds()) {
        heap_retire_slabs_from(heap, TINY_CLASSES);
    }
    heap_reclaim_look(heap);
    heap_leave(heap);
}
