#include "observe/census_caches.h"

#include "arena/page_map.h"
#include "heap/parcel.h"
#include "heap/registry.h"
#include "heap/remote.h"
#include "heap/stock.h"
#include "observe/census.h"

/* Counts `n` blocks of a buffer as cached, by the classes that the page map has for their addresses. The
 * buffer's owner may be filling or emptying it: then pointers count that are there no more, or not yet. */
static __attribute__((no_sanitize("thread"))) void count_cached(void *const *blocks, size_t n,
                                                                struct census *census) {
    for (size_t i = 0; i < min_size(n, REMOTE_BLOCKS); i++) {
        const void *block = *(void *const volatile *)&blocks[i];
        uint32_t word = page_map_get(block);
        unsigned size_class = page_word_class(word);
        if (page_word_is_class(word) && size_class < SIZE_CLASSES) {
            census->classes[size_class].cached_blocks++;
        }
    }
}

static __attribute__((no_sanitize("thread"))) void count_parcels(const struct heap *heap,
                                                                 struct census *census) {
    /* relaxed: a statistic; a parcel that is being emptied counts as what it was */
    uint32_t posted = atomic_load_explicit(&heap->parcels_posted, memory_order_relaxed);
    for (; posted != 0; posted &= posted - 1) {
        const struct parcel *parcel = &heap->parcels[bit_lowest(posted)];
        count_cached(parcel->blocks, *(const volatile uint32_t *)&parcel->count, census);
    }
}

/* What magazines, stocks, remote buffers and parcels hold was counted as live, since the bits of these
 * blocks are not set. */
void census_count_heaps(struct census *census) {
    uint32_t heaps = heap_id_limit();
    for (uint32_t id = HEAP_FIRST_ID; id < heaps; id++) {
        const struct heap *heap = heap_by_id(id);
        /* relaxed: a guess. An abandoned heap's magazines are empty, and reading them would make
         * their pages resident. */
        bool has_magazines = atomic_load_explicit(&heap->state, memory_order_relaxed) != HEAP_ABANDONED;
        for (unsigned c = 0; has_magazines && c < SIZE_CLASSES; c++) {
            census->classes[c].cached_blocks += (uint32_t)magazine_count_from_outside(&heap->magazines[c]);
        }
        for (unsigned c = 0; c < SIZE_CLASSES && stocks_were_used(heap); c++) {
            size_t stocked = stock_count(heap, c);
            census->classes[c].cached_blocks += (uint32_t)stocked;
            if (stocked > 0 && !census->measured) {
                census->metadata.heaps_bytes += stock_bytes(stocked);
            }
        }
        /* The count comes of two loads: while the owner empties the buffer, it may be any number. */
        size_t remote = heap_remote_count(heap);
        count_cached(heap->remote, remote <= REMOTE_BLOCKS ? remote : 0, census);
        count_parcels(heap, census);
        if (!census->measured) {
            census->metadata.heaps_bytes += heap_struct_bytes(heap);
        }
    }
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        if (!size_class_exists(c)) {
            census->classes[c].cached_blocks = 0; /* the class is only just being made */
            continue;
        }
        struct lane_figures *lane = &census->lanes[size_class_lane(c)];
        uint64_t cached = census->classes[c].cached_blocks;
        uint64_t bytes = cached * size_classes[c].bytes;
        lane->cached_blocks += cached;
        lane->cached_bytes += bytes;
        lane->live_blocks -= min_size(cached, lane->live_blocks);
        lane->live_bytes -= min_size(bytes, lane->live_bytes);
    }
    census->counted = true;
}
