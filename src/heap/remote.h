/* Blocks of other heaps that the thread has freed, until they go to their owners.
 *
 * Promises that what waits is bounded in blocks and bytes. By the heap's thread. Relies on parcels, flush and
 * surplus.
 */
#ifndef HAKMEM_HEAP_REMOTE_H
#define HAKMEM_HEAP_REMOTE_H

#include "heap/heap.h"

/* Frees a block of another heap, of which the page map says `word`. */
void heap_free_remote(struct heap *heap, void *block, uint32_t word);
/* Blocks in the remote buffer. */
static inline size_t heap_remote_count(const struct heap *heap) {
    /* relaxed, both: the owner's own; for others a guess */
    return (size_t)(atomic_load_explicit(&heap->counters.remote_frees, memory_order_relaxed) -
                    atomic_load_explicit(&heap->remote_base, memory_order_relaxed));
}
/* Has the remote buffer count as empty. */
static inline void heap_empty_remote(struct heap *heap) {
    /* relaxed, both: its own */
    uint64_t frees = atomic_load_explicit(&heap->counters.remote_frees, memory_order_relaxed);
    atomic_store_explicit(&heap->remote_base, frees, memory_order_relaxed);
}
/* Puts a block of the class at `class_offset` into the remote buffer, which has `n` blocks and room for one
 * more; false if its blocks would be more than REMOTE_BYTES_MAX. */
static inline bool heap_put_remote(struct heap *heap, size_t n, void *block, uint32_t class_offset) {
    size_t bytes = heap->remote_bytes + size_class_at(class_offset)->bytes;
    if (UNLIKELY(bytes > REMOTE_BYTES_MAX)) {
        return false;
    }
    heap->remote[n] = block;
    heap->remote_bytes = bytes;
    /* relaxed, both: its own */
    uint64_t frees = atomic_load_explicit(&heap->remote_base, memory_order_relaxed) + n + 1;
    atomic_store_explicit(&heap->counters.remote_frees, frees, memory_order_relaxed);
    return true;
}
/* Returns what is in the remote buffer to its slabs; gives the number of blocks. */
size_t heap_flush_remote(struct heap *heap);

/* Other threads' blocks from this class on stay with the thread that freed them, where its magazine has room.
 * Smaller ones go back to their owner: threads that run shall not get blocks of the same cache line, and a
 * block that is freed again and again is freed fastest by its owner. */
#define KEPT_CLASSES TINY_CLASSES

/* As heap_free_remote; false, and nothing done, where there is no room for the block. */
bool heap_hold_remote(struct heap *heap, void *block, uint32_t word);

#endif
