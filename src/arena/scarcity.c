#include "arena/scarcity.h"

#include "base/bits.h"
#include "os/cgroup.h"
#include "os/clock.h"

#include <stdatomic.h>

/* A container is near its limit with less room than this part of it, or when its tasks wait for memory for
 * this part of the time (hundredths of a percent). */
#define SCARCE_ROOM_PART 16
#define SCARCE_PRESSURE 500
/* With so much room it is not near it, whatever may stay. */
#define PLENTY_ROOM_PART 4

/* Some thread is in scarcity_read. The release of each reader pairs with the acquire of the next: what the
 * one has left is there for the other. */
static _Atomic bool reading;

/* relaxed everywhere: figures of about the same moment will do */
static _Atomic uint64_t limit_seen, room_seen, seen_ms;

static void note_seen(const struct cgroup_memory *memory) {
    bool is_limited = memory->limit_bytes != UINT64_MAX;
    atomic_store_explicit(&limit_seen, is_limited ? memory->limit_bytes : 0, memory_order_relaxed);
    atomic_store_explicit(&room_seen, is_limited ? memory->room_bytes : 0, memory_order_relaxed);
    atomic_store_explicit(&seen_ms, os_now_ms(), memory_order_relaxed);
}

/* By one thread at a time. */
static bool is_scarce(bool was_scarce, size_t regained) {
    static uint64_t throttled_before = UINT64_MAX;
    struct cgroup_memory memory;
    bool is_known = cgroup_read(&memory);
    note_seen(&memory);
    if (!is_known) {
        return false;
    }
    bool throttled = memory.throttled > throttled_before;
    throttled_before = memory.throttled;
    uint64_t wanted = memory.limit_bytes / SCARCE_ROOM_PART;
    if (was_scarce) { /* in a small container, what may stay is more than it will ever have room for */
        wanted = min_size(wanted + regained, memory.limit_bytes / PLENTY_ROOM_PART);
    }
    return throttled || (memory.limit_bytes != UINT64_MAX &&
                         (memory.room_bytes < wanted || memory.pressure > SCARCE_PRESSURE));
}

COLD bool scarcity_read(bool was_scarce, size_t regained) {
    if (atomic_exchange_explicit(&reading, true, memory_order_acquire)) {
        return was_scarce;
    }
    bool scarce = is_scarce(was_scarce, regained);
    atomic_store_explicit(&reading, false, memory_order_release);
    return scarce;
}

COLD struct scarcity_figures scarcity_figures(void) {
    return (struct scarcity_figures){
        .limit_bytes = atomic_load_explicit(&limit_seen, memory_order_relaxed),
        .room_bytes = atomic_load_explicit(&room_seen, memory_order_relaxed),
        .age_ms = os_now_ms() - atomic_load_explicit(&seen_ms, memory_order_relaxed),
    };
}

COLD void scarcity_lost_by_fork(void) {
    /* relaxed, both: whoever comes next needs nothing of what the lost one has left */
    atomic_store_explicit(&reading, false, memory_order_relaxed);
    atomic_store_explicit(&limit_seen, 0, memory_order_relaxed); /* the parent's container */
}
