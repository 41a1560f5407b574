#include "heap/collect.h"

#include "arena/arena.h"
#include "arena/purge.h"
#include "arena/region.h"
#include "arena/tails.h"
#include "heap/alone.h"
#include "heap/bins.h"
#include "heap/flush_all.h"
#include "heap/heap.h"
#include "heap/holes.h"
#include "heap/parcel.h"
#include "heap/reclaim.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/shared_heap.h"
#include "heap/stock.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/lock.h"

/* After a collection, none is made for PAUSE_TIMES as long as it took, but not for longer than
 * PAUSE_MOST_NS. */
#define PAUSE_TIMES 8
#define PAUSE_MOST_NS 1000000000u

static void reclaim_all(const struct heap *self) {
    for (uint32_t id = 1; option_bool(OPTION_RECLAIM) && id < heap_id_limit(); id++) {
        if (heap_by_id(id) != self) {
            heap_reclaim(heap_by_id(id));
        }
    }
}

/* Has all that threads keep go back to its slabs, and free slabs to the arena; what sleeping threads keep
 * only if asked to. */
static void collect(bool of_sleeping_threads) {
    runtime_start();
    struct heap *self = thread_heap_now();
    if (self == &heap_of_no_thread) {
        self = NULL;
    } else {
        heap_enter(self);
        heap_flush_all(self, FLUSH_API);
        heap_retire_slabs(self);
    }
    if (of_sleeping_threads) {
        reclaim_all(self);
    }
    heap_retire_abandoned();
    shared_heap_collect();
    sampling_collect();
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        parcels_return(self, heap_by_id(id));
        stocks_return(self, heap_by_id(id));
        bin_sweep(self, heap_by_id(id));
    }
    heap_leave(self);
}

COLD size_t heap_give_back(void) {
    struct arena_figures before, after;
    arena_figures(&before);
    collect(true);
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        holes_purge(heap_by_id(id));
    }
    while (heap_trim_abandoned()) {
    }
    tails_purge_all();
    arena_purge_all();
    arena_figures(&after);
    return (size_t)(after.purged_bytes - before.purged_bytes);
}

static struct lock turn; /* to collect for a request; protects not_before_ns */
static uint64_t not_before_ns;

void heap_collect_lost_by_fork(void) {
    lock_end_fork(&turn, true);
}

/* Collects, but not from sleeping threads: that takes files of /proc, which a filter of system calls may
 * forbid. False if the last time was too short ago. `turn` is held. */
static bool collect_unless_in_vain(void) {
    uint64_t begun = os_now_ns();
    if (begun < not_before_ns) {
        return false;
    }
    collect(false);
    uint64_t ended = os_now_ns();
    not_before_ns = ended + min_size((ended - begun) * PAUSE_TIMES, PAUSE_MOST_NS);
    return true;
}

COLD bool heap_collect_for(size_t size) {
    /* Compared with all that there is, free memory included: a few blocks may be all that lies between its
     * parts. */
    if (size > region_reserved_bytes()) {
        return false;
    }
    bool others = !lock_try(&turn);
    if (others && heap_is_alone()) {
        return false; /* this is a signal's handler, and would wait for what it has interrupted */
    }
    if (others) {
        lock_acquire(&turn);
    }
    bool collected = others || collect_unless_in_vain();
    lock_release(&turn);
    return collected;
}
