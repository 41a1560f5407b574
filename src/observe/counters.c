#include "observe/counters.h"

#include "arena/arena.h"
#include "heap/heap_table.h"
#include "heap/stock.h"
#include "os/clock.h"
#include "os/os.h"

#include <string.h>

/* Name of each counter, and, for those that heaps keep, its offset in struct counters. */
static const struct {
    char name[24];
    uint16_t offset;
} known[COUNTERS] = {
    [COUNTER_REFILLS] = {"refills", offsetof(struct counters, refills)},
    [COUNTER_REFILLED_BLOCKS] = {"refilled_blocks", offsetof(struct counters, refilled_blocks)},
    [COUNTER_REFILLS_PARCELS] = {"refills_parcels", offsetof(struct counters, refills_parcels)},
    [COUNTER_REFILLS_STOCK] = {"refills_stock", offsetof(struct counters, refills_stock)},
    [COUNTER_REFILLS_CURRENT_SLAB] = {"refills_current_slab", offsetof(struct counters, refills_current)},
    [COUNTER_REFILLS_PARTIAL_SLAB] = {"refills_partial_slab", offsetof(struct counters, refills_partial)},
    [COUNTER_REFILLS_INBOX_SLAB] = {"refills_inbox_slab", offsetof(struct counters, refills_inbox)},
    [COUNTER_REFILLS_ADOPTED_SLAB] = {"refills_adopted_slab", offsetof(struct counters, refills_adopted)},
    [COUNTER_REFILLS_FRESH_SLAB] = {"refills_fresh_slab", offsetof(struct counters, refills_fresh)},
    [COUNTER_MAGAZINE_GROWTHS] = {"magazine_growths", offsetof(struct counters, magazine_growths)},
    [COUNTER_FLUSHES] = {"flushes", offsetof(struct counters, flushes)},
    [COUNTER_FLUSHED_BLOCKS] = {"flushed_blocks", offsetof(struct counters, flushed_blocks)},
    [COUNTER_FLUSHES_MAGAZINE_FULL] = {"flushes_magazine_full", offsetof(struct counters, flushes_full)},
    [COUNTER_FLUSHES_STOCKED] = {"flushes_stocked", offsetof(struct counters, flushes_stocked)},
    [COUNTER_FLUSHES_THREAD_EXIT] = {"flushes_thread_exit", offsetof(struct counters, flushes_exit)},
    [COUNTER_FLUSHES_RECLAIM] = {"flushes_reclaim", offsetof(struct counters, flushes_reclaim)},
    [COUNTER_FLUSHES_IDLE] = {"flushes_idle", offsetof(struct counters, flushes_idle)},
    [COUNTER_FLUSHES_SURPLUS] = {"flushes_surplus", offsetof(struct counters, flushes_surplus)},
    [COUNTER_FLUSHES_API] = {"flushes_api", offsetof(struct counters, flushes_api)},
    [COUNTER_REMOTE_FREED_BLOCKS] = {"remote_freed_blocks", offsetof(struct counters, remote_frees)},
    [COUNTER_REMOTE_FLUSHES] = {"remote_flushes", offsetof(struct counters, remote_flushes)},
    [COUNTER_REMOTE_PARCELS] = {"remote_parcels", offsetof(struct counters, remote_parcels)},
    [COUNTER_REMOTE_KEPT_BLOCKS] = {"remote_kept_blocks", offsetof(struct counters, remote_kept)},
    [COUNTER_LARGE_ALLOCS] = {"large_allocs", offsetof(struct counters, large_allocs)},
    [COUNTER_LARGE_FREES] = {"large_frees", offsetof(struct counters, large_frees)},
    [COUNTER_LARGE_KEPT] = {"large_kept", offsetof(struct counters, large_kept)},
    [COUNTER_HUGE_ALLOCS] = {"huge_allocs", offsetof(struct counters, huge_allocs)},
    [COUNTER_HUGE_FREES] = {"huge_frees", offsetof(struct counters, huge_frees)},
    [COUNTER_HUGE_REMAPS] = {"huge_remaps", offsetof(struct counters, huge_remaps)},
    [COUNTER_SLABS_CREATED] = {"slabs_created", offsetof(struct counters, slabs_created)},
    [COUNTER_SLABS_RECYCLED] = {"slabs_recycled", offsetof(struct counters, slabs_recycled)},
    [COUNTER_SLABS_ADOPTED] = {"slabs_adopted", offsetof(struct counters, slabs_adopted)},
    [COUNTER_SLABS_RELEASED] = {"slabs_released", offsetof(struct counters, slabs_released)},
    [COUNTER_POPULATED_BYTES] = {"populated_bytes", offsetof(struct counters, populated_slabs)},
    [COUNTER_PAGE_FAULTS_AVOIDED] = {"page_faults_avoided", offsetof(struct counters, faults_avoided)},
    [COUNTER_HEAPS_RECLAIMED] = {"heaps_reclaimed", offsetof(struct counters, reclaimed)},
    [COUNTER_SUPERSLABS_OPENED] = {"superslabs_opened", 0},
    [COUNTER_SUPERSLABS_DENSE] = {"superslabs_dense", 0},
    [COUNTER_REGIONS_CREATED] = {"regions_created", 0},
    [COUNTER_PURGES] = {"purges", 0},
    [COUNTER_PURGED_BYTES] = {"purged_bytes", 0},
    [COUNTER_DECAYED_BYTES] = {"decayed_bytes", 0},
    [COUNTER_HOLE_BYTES] = {"hole_bytes", 0},
    [COUNTER_FOREIGN_FREES] = {"foreign_frees", 0},
    [COUNTER_SYSTEM_CALLS] = {"system_calls", 0},
    [COUNTER_ARENA_LOCK_WAITS] = {"arena_lock_waits", 0},
    [COUNTER_OTHER_LOCK_WAITS] = {"other_lock_waits", 0},
    [COUNTER_STOCK_RETURNED_BLOCKS] = {"stock_returned_blocks", 0},
    [COUNTER_PUBLICATIONS] = {"publications", 0},
};

/* relaxed everywhere: numbers that order nothing */
static _Atomic uint64_t publications;
static _Atomic uint64_t begin_ms;
/* All counters as they were at the last reset. relaxed everywhere */
static _Atomic uint64_t baseline[sizeof(struct counter_values) / sizeof(uint64_t)];

const char *counter_name(enum counter counter) {
    return known[counter].name;
}

uint64_t counters_begin_ms(void) {
    return atomic_load_explicit(&begin_ms, memory_order_relaxed);
}

OFTEN void counters_begin_at(uint64_t now_ms) {
    atomic_store_explicit(&begin_ms, now_ms, memory_order_relaxed);
}

void counters_note_publication(void) {
    atomic_fetch_add_explicit(&publications, 1, memory_order_relaxed);
}

static uint64_t read_counter(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed); /* a statistic; count() writes it */
}

static void add(const struct counters *counters, struct counter_values *out) {
    for (int i = 0; i < COUNTERS_OF_HEAPS; i++) {
        out->counters[i] +=
            read_counter((const _Atomic uint64_t *)(const void *)((const char *)counters + known[i].offset));
    }
    for (int i = 0; i < BATCH_SIZES; i++) {
        out->refill_batches[i] += read_counter(&counters->refill_batches[i]);
        out->flush_batches[i] += read_counter(&counters->flush_batches[i]);
    }
}

/* Reads all counts since the start of the process. */
static void read_all(struct counter_values *out) {
    struct arena_figures arena;
    memset(out, 0, sizeof *out);
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        const struct heap *heap = heap_by_id(id);
        /* relaxed: a statistic. The heap of samples is left out: it has no magazines, and its slabs are not
         * the program's doing. */
        if (atomic_load_explicit(&heap->state, memory_order_relaxed) != HEAP_OF_SAMPLES) {
            add(&heap->counters, out);
        }
    }
    add(&counters_of_no_heap, out);
    out->counters[COUNTER_REMOTE_FREED_BLOCKS] += out->counters[COUNTER_REMOTE_KEPT_BLOCKS];
    out->counters[COUNTER_POPULATED_BYTES] <<= SLAB_SHIFT;
    arena_figures(&arena);
    out->counters[COUNTER_SUPERSLABS_OPENED] = arena.superslabs_opened;
    out->counters[COUNTER_SUPERSLABS_DENSE] = arena.superslabs_dense;
    out->counters[COUNTER_REGIONS_CREATED] = arena.regions_created;
    out->counters[COUNTER_PURGES] = arena.purges;
    out->counters[COUNTER_PURGED_BYTES] = arena.purged_bytes;
    out->counters[COUNTER_DECAYED_BYTES] = arena.decayed_bytes;
    out->counters[COUNTER_HOLE_BYTES] = arena.hole_bytes;
    out->counters[COUNTER_FOREIGN_FREES] = report_fallback_count(FALLBACK_FOREIGN_FREE);
    out->counters[COUNTER_SYSTEM_CALLS] = os_call_count();
    out->counters[COUNTER_ARENA_LOCK_WAITS] = lock_waits_apart();
    out->counters[COUNTER_OTHER_LOCK_WAITS] = lock_waits();
    out->counters[COUNTER_STOCK_RETURNED_BLOCKS] = stocks_returned_blocks();
    out->counters[COUNTER_PUBLICATIONS] = atomic_load_explicit(&publications, memory_order_relaxed);
    for (int i = 0; i < FALLBACK_COUNT; i++) {
        out->fallbacks[i] = report_fallback_count((enum fallback)i);
    }
}

void counters_read(struct counter_values *out) {
    read_all(out);
    uint64_t *values = (uint64_t *)(void *)out;
    for (size_t i = 0; i < sizeof *out / sizeof *values; i++) {
        /* The smaller of the two, because another thread's reset may have come in between. */
        values[i] -= min_size(values[i], atomic_load_explicit(&baseline[i], memory_order_relaxed));
    }
}

void counters_reset(void) {
    struct counter_values now;
    read_all(&now);
    const uint64_t *values = (const uint64_t *)(const void *)&now;
    for (size_t i = 0; i < sizeof now / sizeof *values; i++) {
        atomic_store_explicit(&baseline[i], values[i], memory_order_relaxed);
    }
    counters_begin_at(os_now_ms());
}
