#include "heap/bins.h"
#include "heap/flush.h"
#include "heap/heap.h"
#include "heap/parcel.h"
#include "heap/registry.h"
#include "heap/runtime.h"

bool hakmem_test_lost_heap_releases_its_slab(size_t size);
bool hakmem_test_lost_claims_are_given_up(void);

/* A heap as a child has it whose thread was lost just when it had taken a slab. */
bool hakmem_test_lost_heap_releases_its_slab(size_t size) {
    runtime_start();
    unsigned c = size_class_of(size);
    struct heap *heap = heap_acquire(NULL, 0, 0);
    void *block = NULL;
    if (heap == NULL || bin_take(heap, c, &block, 1) != 1) {
        return false;
    }
    heap->used_bins[c / 64] = 0;
    bin_settle_after_fork(heap, c);
    heap_return_blocks(heap, &block, 1);
    heap_retire_slabs(heap);
    bool released = heap->bins[c].current == NULL;
    heap_leave(heap);
    heap_abandon(heap, false);
    return released;
}

/* Parcels of a heap as a child has them whose threads were lost when they had claimed each of them, to fill
 * it: returns whether they can be claimed again. */
bool hakmem_test_lost_claims_are_given_up(void) {
    runtime_start();
    struct heap *heap = heap_acquire(NULL, 0, 0);
    if (heap == NULL || !parcels_close(heap)) {
        return false;
    }
    parcels_settle_after_fork(heap);
    bool given_up = parcels_close(heap);
    parcels_reopen(heap);
    heap_leave(heap);
    heap_abandon(heap, false);
    return given_up;
}
