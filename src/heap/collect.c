#include "heap/collect.h"

#include "arena/arena.h"
#include "heap/heap.h"
#include "heap/sampling.h"
#include "heap/stock.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/clock.h"

/* After a collection come so many times as long without one. */
#define PAUSE_TIMES 8

COLD void heap_collect(void) {
    runtime_start();
    struct heap *self = thread_heap_now();
    if (self == &heap_of_no_thread) {
        self = NULL;
    } else {
        heap_enter(self);
        heap_flush_all(self, FLUSH_API);
        heap_retire_slabs(self);
    }
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        if (option_bool(OPTION_RECLAIM) && heap_by_id(id) != self) {
            heap_reclaim(heap_by_id(id));
        }
    }
    heap_retire_abandoned();
    sampling_collect();
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        parcels_return(self, heap_by_id(id));
        stocks_return(self, heap_by_id(id));
        bin_sweep(self, heap_by_id(id));
    }
    heap_leave(self);
}

COLD bool heap_collect_for(size_t size) {
    static _Atomic uint64_t not_before_ns; /* relaxed: a time that stands alone */
    if (size > arena_used_bytes()) {
        return false;
    }
    uint64_t begun = os_now_ns();
    if (begun >= atomic_load_explicit(&not_before_ns, memory_order_relaxed)) {
        heap_collect();
        uint64_t ended = os_now_ns();
        atomic_store_explicit(&not_before_ns, ended + (ended - begun) * PAUSE_TIMES, memory_order_relaxed);
    }
    return true; /* in a pause, too: another thread may have collected since there was no memory */
}
