/* The remote buffer: blocks of other threads' heaps that this thread has freed.
 *
 * They are kept until there are enough for a parcel to their owner. Mostly all are of one owner, which
 * release_of_others sees by one combination of words; then nothing is looked at again on this side.
 */
#include "heap/remote.h"

#include "arena/decay.h"
#include "heap/cached.h"
#include "heap/flush.h"
#include "heap/heap_table.h"
#include "heap/parcel.h"
#include "heap/surplus.h"

/* Has the buffer count as empty; gives the number of blocks that are still in its array. */
static size_t take_all(struct heap *heap) {
    size_t n = heap_remote_count(heap);
    if (n > 0) {
        heap_empty_remote(heap);
        count(&heap->counters.remote_flushes, 1);
    }
    return n;
}

size_t heap_flush_remote(struct heap *heap) {
    size_t n = take_all(heap);
    heap_return_blocks(heap, heap->remote, n);
    return n;
}

/* Owners whose blocks are picked out of the buffer, to be sent in a parcel; those of others go to their
 * slabs. */
#define PARCEL_OWNERS_MOST 4
/* Flushes of the buffer for each that asks for the background thread, which parcels need. */
#define FLUSHES_FOR_A_REQUEST 16

/* Moves the blocks of the owner, of together `*bytes`, from `blocks` to `same`; gives how many. */
static size_t pick_out(uint32_t owner, void **blocks, size_t n, void **same, size_t *bytes) {
    size_t picked = 0;
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        void *block = blocks[i];
        uint32_t word = page_map_get(block);
        if (page_word_owner(word) == owner) {
            same[picked++] = block;
            *bytes += size_classes[page_word_class(word)].bytes;
        } else {
            blocks[i - picked] = block;
        }
    }
    return picked;
}

/* Sends the blocks to their owner in a parcel, or else returns them to their slabs, which reports misuse
 * where there is no such owner. */
static void send_to(uint32_t owner, struct heap *heap, void *const *blocks, size_t n, size_t bytes) {
    struct heap *to = heap_by_id(owner);
    if (n >= PARCEL_BLOCKS_LEAST && to != heap && to != NULL && parcel_send(to, blocks, n, bytes)) {
        count(&heap->counters.remote_parcels, 1);
    } else {
        heap_return_blocks(heap, blocks, n);
    }
}

/* Sends the `n` blocks in the array to their owners, which are several. */
static NOINLINE void send_mixed(struct heap *heap, size_t n) {
    for (unsigned owners = 0; n >= PARCEL_BLOCKS_LEAST && owners < PARCEL_OWNERS_MOST; owners++) {
        void *same[REMOTE_BLOCKS];
        size_t bytes;
        uint32_t owner = page_word_owner(page_map_get(heap->remote[0]));
        size_t picked = pick_out(owner, heap->remote, n, same, &bytes);
        n -= picked;
        send_to(owner, heap, same, picked, bytes);
    }
    heap_return_blocks(heap, heap->remote, n);
}

/* The buffer is full: as much as possible goes to its owners in parcels. */
static void send_remote(struct heap *heap) {
    heap_enter(heap);
    size_t n = take_all(heap);
    if (heap->remote_mixed) {
        send_mixed(heap, n);
    } else {
        send_to(page_word_owner(heap->remote_key ^ heap->tag), heap, heap->remote, n, heap->remote_bytes);
    }
    /* relaxed: its own */
    uint64_t flushes = atomic_load_explicit(&heap->counters.remote_flushes, memory_order_relaxed);
    if (UNLIKELY(flushes % FLUSHES_FOR_A_REQUEST == 1)) {
        decay_request();
    }
    heap_leave(heap);
}

/* Blocks that stay so between two looks at how much that has become. */
#define KEPT_FOR_A_LOOK 64

/* Puts the block into the magazine of its class; false if that is full, or the class below KEPT_CLASSES. */
static inline bool keep(struct heap *heap, void *block, unsigned size_class) {
    struct magazine *m = &heap->magazines[size_class];
    if (size_class < KEPT_CLASSES || m->top == m->end) {
        return false;
    }
    *m->top++ = block;
    count(&heap->counters.remote_kept, 1);
    cached_add(heap, size_class, 1);
    /* relaxed: its own */
    uint64_t kept = atomic_load_explicit(&heap->counters.remote_kept, memory_order_relaxed);
    if (UNLIKELY(kept % KEPT_FOR_A_LOOK == 0)) {
        surplus_look(heap);
    }
    return true;
}

/* Puts the block, of which the page map says `word`, into the remote buffer; false if that has no room. */
static inline bool buffer(struct heap *heap, void *block, uint32_t word) {
    uint32_t key = heap->tag ^ page_word(page_word_owner(word), 0);
    size_t n = heap_remote_count(heap);
    if (n == 0) {
        heap->remote_key = key;
        heap->remote_mixed = false;
        heap->remote_bytes = 0;
    }
    if (n == REMOTE_BLOCKS || !heap_put_remote(heap, n, block, page_word_class(word) * CLASS_SCALE)) {
        return false;
    }
    heap->remote_mixed |= key != heap->remote_key;
    return true;
}

NOINLINE bool heap_hold_remote(struct heap *heap, void *block, uint32_t word) {
    return keep(heap, block, page_word_class(word)) || buffer(heap, block, word);
}

void heap_free_remote(struct heap *heap, void *block, uint32_t word) {
    if (!heap_hold_remote(heap, block, word)) {
        send_remote(heap);
        (void)heap_hold_remote(heap, block, word);
    }
}
