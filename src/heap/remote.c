/* The remote buffer: blocks of other threads' heaps that this thread has freed.
 *
 * They are kept with their classes until there are enough for a parcel to their owner. Mostly all are of one
 * owner, which release_of_others sees by one combination of words; then nothing is looked at again.
 */
#include "arena/decay.h"
#include "heap/heap.h"

static uint32_t remote_count(const struct heap *heap) {
    return atomic_load_explicit(&heap->remote_count, memory_order_relaxed); /* the owner's own */
}

/* The buffer counts as empty from now on; gives the blocks that are still in its arrays. */
static size_t empty_remote(struct heap *heap) {
    size_t n = remote_count(heap);
    if (n > 0) {
        count(&heap->counters.remote_frees, n);
        count(&heap->counters.remote_flushes, 1);
        atomic_store_explicit(&heap->remote_count, 0, memory_order_relaxed); /* the owner's own */
    }
    return n;
}

size_t heap_flush_remote(struct heap *heap) {
    size_t n = empty_remote(heap);
    heap_return_blocks(heap, heap->remote.blocks, n);
    return n;
}

/* Fewer blocks of one owner are not worth a parcel; and of so many owners at once none gets one. */
#define PARCEL_BLOCKS_LEAST 32
#define PARCEL_OWNERS_MOST 4
/* The background thread, which parcels need, is asked for so often. */
#define FLUSHES_FOR_A_REQUEST 16

/* Moves the blocks of the owner from `blocks` to `same`; gives how many. */
static size_t pick_out(uint32_t owner, struct classed_blocks *blocks, size_t n, struct classed_blocks *same) {
    size_t picked = 0;
    for (size_t i = 0; i < n; i++) {
        void *block = blocks->blocks[i];
        bool is_owners = page_word_owner(page_map_get(block)) == owner;
        struct classed_blocks *to = is_owners ? same : blocks;
        size_t at = is_owners ? picked : i - picked;
        to->blocks[at] = block;
        to->classes[at] = blocks->classes[i];
        picked += is_owners;
    }
    return picked;
}

static bool send_to(uint32_t owner, struct heap *heap, const struct classed_blocks *blocks, size_t n) {
    struct heap *to = heap_by_id(owner);
    bool sent = n >= PARCEL_BLOCKS_LEAST && to != heap && to != NULL && parcel_send(to, blocks, n);
    if (sent) {
        count(&heap->counters.remote_parcels, 1);
    }
    return sent;
}

/* As much as possible of a buffer of several owners goes to them; gives how many blocks are left in it. */
static NOINLINE size_t send_mixed(struct heap *heap, size_t n) {
    for (unsigned owners = 0; n >= PARCEL_BLOCKS_LEAST && owners < PARCEL_OWNERS_MOST; owners++) {
        struct classed_blocks same;
        uint32_t owner = page_word_owner(page_map_get(heap->remote.blocks[0]));
        size_t picked = pick_out(owner, &heap->remote, n, &same);
        n -= picked;
        if (!send_to(owner, heap, &same, picked)) {
            heap_return_blocks(heap, same.blocks, picked);
        }
    }
    return n;
}

/* The buffer is full: as much as possible goes to its owners in parcels. */
static void send_remote(struct heap *heap) {
    heap_enter(heap);
    size_t n = empty_remote(heap);
    if (heap->remote_mixed) {
        n = send_mixed(heap, n);
    } else if (send_to(page_word_owner(heap->remote_key ^ heap->tag), heap, &heap->remote, n)) {
        n = 0;
    }
    heap_return_blocks(heap, heap->remote.blocks, n);
    uint64_t flushes =
        atomic_load_explicit(&heap->counters.remote_flushes, memory_order_relaxed); /* its own */
    if (UNLIKELY(flushes % FLUSHES_FOR_A_REQUEST == 1)) {
        decay_request();
    }
    heap_leave(heap);
}

static bool keep(struct heap *heap, void *block, unsigned size_class) {
    struct magazine *m = &heap->magazines[size_class];
    if (size_class < KEPT_CLASSES || m->top == m->end) {
        return false;
    }
    *m->top++ = block;
    count(&heap->counters.remote_kept, 1);
    return true;
}

static bool buffer(struct heap *heap, void *block, uint32_t word) {
    unsigned size_class = page_word_class(word);
    uint32_t n = remote_count(heap);
    uint32_t key = heap->tag ^ page_word(page_word_owner(word), 0);
    if (n == 0) {
        heap->remote_key = key;
        heap->remote_mixed = false;
        heap->remote_bytes = 0;
    }
    size_t bytes = heap->remote_bytes + (size_class < KEPT_CLASSES ? 0 : size_classes[size_class].bytes);
    if (n == REMOTE_BLOCKS || bytes > REMOTE_BYTES_MAX) {
        return false;
    }
    heap->remote_mixed = heap->remote_mixed || key != heap->remote_key;
    heap->remote_bytes = bytes;
    heap_put_remote(heap, n, block, size_class);
    return true;
}

bool heap_hold_remote(struct heap *heap, void *block, uint32_t word) {
    return keep(heap, block, page_word_class(word)) || buffer(heap, block, word);
}

void heap_free_remote(struct heap *heap, void *block, uint32_t word) {
    if (!heap_hold_remote(heap, block, word)) {
        send_remote(heap);
        (void)heap_hold_remote(heap, block, word);
    }
}
