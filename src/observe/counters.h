/* Counters: what has happened so far, by name.
 *
 * Promises that each counter only grows, until counters_reset, and that reading them stops nobody. For
 * any thread. Relies on the heaps' own counts, which their threads keep on slow paths, and on those of
 * arena, os and locks.
 */
#ifndef HAKMEM_OBSERVE_COUNTERS_H
#define HAKMEM_OBSERVE_COUNTERS_H

#include "heap/heap.h"
#include "os/report.h"

/* docs/statistics.md says what each means, under the name that counter_name gives. */
enum counter {
    COUNTER_REFILLS,
    COUNTER_REFILLED_BLOCKS,
    COUNTER_REFILLS_PARCELS,
    COUNTER_REFILLS_STOCK,
    COUNTER_REFILLS_CURRENT_SLAB,
    COUNTER_REFILLS_PARTIAL_SLAB,
    COUNTER_REFILLS_INBOX_SLAB,
    COUNTER_REFILLS_ADOPTED_SLAB,
    COUNTER_REFILLS_FRESH_SLAB,
    COUNTER_MAGAZINE_GROWTHS,
    COUNTER_FLUSHES,
    COUNTER_FLUSHED_BLOCKS,
    COUNTER_FLUSHES_MAGAZINE_FULL,
    COUNTER_FLUSHES_STOCKED,
    COUNTER_FLUSHES_THREAD_EXIT,
    COUNTER_FLUSHES_RECLAIM,
    COUNTER_FLUSHES_IDLE,
    COUNTER_FLUSHES_SURPLUS,
    COUNTER_FLUSHES_API,
    COUNTER_REMOTE_FREED_BLOCKS,
    COUNTER_REMOTE_FLUSHES,
    COUNTER_REMOTE_PARCELS,
    COUNTER_REMOTE_KEPT_BLOCKS,
    COUNTER_LARGE_ALLOCS,
    COUNTER_LARGE_FREES,
    COUNTER_LARGE_KEPT,
    COUNTER_HUGE_ALLOCS,
    COUNTER_HUGE_FREES,
    COUNTER_HUGE_REMAPS,
    COUNTER_SLABS_CREATED,
    COUNTER_SLABS_RECYCLED,
    COUNTER_SLABS_ADOPTED,
    COUNTER_SLABS_RELEASED,
    COUNTER_POPULATED_BYTES,
    COUNTER_PAGE_FAULTS_AVOIDED,
    COUNTER_HEAPS_RECLAIMED,
    COUNTERS_OF_HEAPS,
    COUNTER_SUPERSLABS_OPENED = COUNTERS_OF_HEAPS,
    COUNTER_SUPERSLABS_DENSE,
    COUNTER_REGIONS_CREATED,
    COUNTER_PURGES,
    COUNTER_PURGED_BYTES,
    COUNTER_DECAYED_BYTES,
    COUNTER_HOLE_BYTES,
    COUNTER_FOREIGN_FREES,
    COUNTER_SYSTEM_CALLS,
    COUNTER_ARENA_LOCK_WAITS,
    COUNTER_OTHER_LOCK_WAITS,
    COUNTER_STOCK_RETURNED_BLOCKS,
    COUNTER_PUBLICATIONS,
    COUNTERS
};

struct counter_values {
    uint64_t counters[COUNTERS];
    uint64_t refill_batches[BATCH_SIZES], flush_batches[BATCH_SIZES];
    uint64_t fallbacks[FALLBACK_COUNT];
};

/* Reads all counters, as they have grown since the last reset. */
void counters_read(struct counter_values *out);
/* All counters begin at zero again, for all readers. */
void counters_reset(void);
/* When the counters began, in milliseconds of os_now_ms. */
uint64_t counters_begin_ms(void);
void counters_begin_at(uint64_t now_ms);
/* Counts a publication on the live page. */
void counters_note_publication(void);

const char *counter_name(enum counter counter);

#endif
