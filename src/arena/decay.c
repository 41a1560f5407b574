#include "arena/decay.h"

#include "arena/internal.h"
#include "options/options.h"
#include "os/cgroup.h"
#include "os/os.h"
#include "os/report.h"
#include "os/thread.h"

/* Free slabs that are worth a thread, and those left when it ends: 1 MiB and 256 KiB. */
#define START_SLABS ((size_t)16)
#define REST_SLABS ((size_t)4)

/* Under the arena's lock. */
static enum { NO_THREAD, STARTING, RUNNING, REFUSED } thread;
static uint64_t last_tick_ms;
static void (*run)(void);

void decay_set_thread(void (*what)(void)) {
    run = what;
}

/* Half of it: what lies idle for one whole period between two ticks is given back at the second. */
uint64_t decay_period_ms(void) {
    return option_number(OPTION_DECAY_MS) / 2 + 1;
}

/* A container is near its limit with less room than this part of it, or when its tasks wait for memory for
 * this part of the time (hundredths of a percent). */
#define SCARCE_ROOM_PART 16
#define SCARCE_PRESSURE 500

static bool memory_is_scarce(void) {
    static uint64_t throttled_before; /* callers come one at a time */
    struct cgroup_memory memory;
    if (!cgroup_read(&memory)) {
        return false;
    }
    bool throttled = memory.throttled > throttled_before;
    throttled_before = memory.throttled;
    return throttled ||
           (memory.limit_bytes != UINT64_MAX &&
            (memory.room_bytes < memory.limit_bytes / SCARCE_ROOM_PART || memory.pressure > SCARCE_PRESSURE));
}

/* Gives back what was dirty throughout the last period. */
static void tick(bool scarce) {
    size_t idle = min_size(arena.dirty_low, arena.dirty_slabs);
    retention_tick(&arena.retention, idle);
    arena.retention.scarce = scarce;
    size_t target = min_size(arena.dirty_slabs - idle, retention_bound(&arena.retention, arena.used_slabs));
    if (target < arena.dirty_slabs) {
        arena.decayed_bytes += arena_purge_to(target) << SLAB_SHIFT;
    }
    arena.dirty_low = arena.dirty_slabs;
}

bool decay_tick(bool more) {
    bool scarce = memory_is_scarce();
    lock_acquire(&arena.lock);
    thread = RUNNING;
    tick(scarce);
    more = more || arena.dirty_slabs > REST_SLABS;
    if (!more) {
        thread = NO_THREAD;
    }
    lock_release(&arena.lock);
    return more;
}

static bool may_start(void) {
    if (thread != NO_THREAD || !option_bool(OPTION_BACKGROUND_THREAD) || !os_main_has_begun()) {
        return false;
    }
    thread = STARTING;
    arena.dirty_low = arena.dirty_slabs;
    return true;
}

void decay_request(void) {
    lock_acquire(&arena.lock);
    bool start = may_start();
    lock_release(&arena.lock);
    if (start) {
        decay_start();
    }
}

bool decay_wanted(void) {
    if (LIKELY(arena.dirty_slabs <= START_SLABS || thread == STARTING || thread == RUNNING)) {
        return false;
    }
    if (may_start()) {
        return true;
    }
    uint64_t now = os_now_ms();
    if (now - last_tick_ms >= decay_period_ms()) {
        last_tick_ms = now;
        tick(memory_is_scarce());
    }
    return false;
}

void decay_start(void) {
    if (!os_thread_start(run)) {
        report_fallback(FALLBACK_NO_BACKGROUND_THREAD, 0);
        lock_acquire(&arena.lock);
        thread = REFUSED;
        lock_release(&arena.lock);
    }
}

void decay_lost_by_fork(void) {
    os_thread_lost_by_fork();
    thread = thread == REFUSED ? REFUSED : NO_THREAD;
}
