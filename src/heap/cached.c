#include "heap/cached.h"

#include "arena/bound.h"
#include "heap/registry.h"
#include "heap/slack.h"

/* What magazines may hold, and what is free in slabs that they may keep, together, besides what the bound
 * allows. */
#define CACHED_MOST_BYTES ((int64_t)32 << 20)

struct cached cached_all;
/* The library's thread knows that the sum is too much, or is being woken for it. relaxed everywhere: who
 * misses it wakes that thread once too often, or with the next look */
static _Atomic bool is_seen;

static RARE bool is_too_much(int64_t bytes) {
    int64_t slack = slack_resident();
    return heap_count_in_use() > HEAPS_FEW &&
           bytes + (slack > 0 ? slack : 0) > CACHED_MOST_BYTES + (int64_t)arena_share_bytes();
}

static RARE bool may_be_too_much(void) {
    return cached_may_exceed() && is_too_much(atomic_load_explicit(&cached_all.bytes, memory_order_relaxed));
}

RARE int64_t cached_from(const struct heap *heap, unsigned first_class) {
    size_t bytes = 0;
    for (unsigned c = first_class; c < SIZE_CLASSES; c++) {
        size_t blocks = magazine_count_from_outside(&heap->magazines[c]);
        /* Without a block of it, an exact class may just be in the making: see size_class_exists. */
        bytes += blocks > 0 ? blocks * size_classes[c].bytes : 0;
    }
    return (int64_t)bytes;
}

RARE int64_t cached_in(const struct heap *heap) {
    /* relaxed: a guess. Of an abandoned heap's magazines, which are empty, the pages are gone. */
    bool active = atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ACTIVE;
    return active ? cached_from(heap, 0) : 0;
}

RARE bool cached_exceeds(void) {
    int64_t bytes = 0;
    for (uint32_t id = HEAP_FIRST_ID; may_be_too_much() && id < heap_id_limit(); id++) {
        bytes += cached_in(heap_by_id(id));
    }
    return is_too_much(bytes);
}

COLD void cached_note_seen(bool too_much) {
    atomic_store_explicit(&is_seen, too_much, memory_order_relaxed);
}

COLD void cached_set(struct heap *heap, int64_t bytes) {
    atomic_fetch_add_explicit(&cached_all.bytes, bytes - cached_told(heap), memory_order_relaxed);
    atomic_store_explicit(&heap->told_bytes, bytes, memory_order_relaxed); /* relaxed: see cached_told */
}

RARE bool cached_exceed_anew(void) {
    return may_be_too_much() && !atomic_exchange_explicit(&is_seen, true, memory_order_relaxed);
}
