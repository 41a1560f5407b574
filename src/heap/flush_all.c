#include "heap/flush_all.h"

#include "heap/parcel.h"
#include "heap/remote.h"
#include "heap/runs.h"

size_t heap_flush_all(struct heap *heap, enum flush_cause cause) {
    size_t n = heap_flush_remote(heap) + parcels_return(heap, heap);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        n += heap_flush_magazine(heap, c, cause);
    }
    return n + runs_return(heap);
}
