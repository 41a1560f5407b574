#include "profile/sample.h"

#include "arena/page_map.h"
#include "base/floating.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/pages.h"
#include "os/report.h"
#include "profile/files.h"
#include "profile/internal.h"
#include "profile/poisson.h"
#include "profile/thinning.h"
#include "slab/size_class.h"

struct profile_switch profile_switch;
struct profile profile;

/* Switches sampling; the lock is held. relaxed, then release: see profile_switch */
static void set_interval(uint64_t interval) {
    atomic_store_explicit(&profile_switch.interval, interval, memory_order_relaxed);
    atomic_fetch_add_explicit(&profile_switch.run, 1, memory_order_release);
}

/* The interval in force, 0 while sampling is off; the lock is held. relaxed: it is written under the lock */
static uint64_t interval_now(void) {
    return atomic_load_explicit(&profile_switch.interval, memory_order_relaxed);
}

NOINLINE void profile_release(void) {
    lock_release(&profile.lock);
    if (UNLIKELY(profile_is_asked_for())) { /* asked here, because most programs come no further */
        files_write_if_asked();
    }
}

/* Takes the origins out of the profile, where nobody reads them; else only their figures go. The lock is
 * held. */
static struct origins begin_anew(void) {
    struct origins old = {0};
    /* acquire pairs with the release in profile_end_reading */
    if (atomic_load_explicit(&profile.readers, memory_order_acquire) == 0) {
        old = profile.origins;
        profile.origins = (struct origins){0};
    } else {
        origins_forget(&profile.origins);
    }
    profile.run++; /* so that no record's tally is looked at any more */
    atomic_store_explicit(&profile.bytes, 0, memory_order_relaxed);
    return old;
}

COLD void profile_start(uint64_t interval) {
    struct origins old = {0};
    lock_acquire(&profile.lock);
    bool as_before =
        interval_now() != 0 && (interval == 0 || (interval == interval_now() && !profile.may_thin));
    if (!as_before) {
        if (interval == 0) {
            interval = option_number(OPTION_PROF_INTERVAL);
        }
        profile.may_thin = interval == 0;
        profile.recent = 0;
        profile.haste = 0;
        profile.recent_ms = os_now_ms();
        if (interval == 0) {
            interval = PROFILE_INTERVAL_DEFAULT;
        }
        old = begin_anew();
        profile.interval = interval;
        profile.random ^= profile.recent_ms;
        set_interval(interval);
    }
    profile_release();
    origins_give(&old);
}

void profile_stop(void) {
    lock_acquire(&profile.lock);
    if (interval_now() != 0) {
        set_interval(0);
    }
    profile_release();
}

/* How many bytes a sample of `size` stands for. The lock is held, as in all static functions below. */
static uint64_t estimate(size_t size) {
    return (uint64_t)((double)size * poisson_weight((double)size, profile.interval));
}

/* Adds the record's block to the figures of live blocks, or takes it from them if not `enters`. */
static void count_live(const struct record *record, bool enters) {
    if (record->tally == NULL || record->run != profile.run) {
        return;
    }
    struct figures *figures = &record->tally->figures;
    uint64_t sign = enters ? 1 : UINT64_MAX; /* + or -, modulo 2^64 */
    figures->live_blocks += sign;
    figures->live_bytes += sign * record->size;
    atomic_store_explicit(&profile.bytes,
                          atomic_load_explicit(&profile.bytes, memory_order_relaxed) +
                              sign * estimate(record->size),
                          memory_order_relaxed);
}

static void count_total(struct tally *tally, size_t bytes) {
    tally->figures.total_blocks++;
    tally->figures.total_bytes += bytes;
}

static void count_shadow(const void *shadow, bool enters) {
    if (shadow != NULL) {
        uint32_t offset = page_map_get(shadow) & ((1u << PAGE_WORD_OWNER_SHIFT) - 1);
        uint64_t sign = enters ? 1 : UINT64_MAX; /* + or -, modulo 2^64 */
        profile.shadow_blocks += sign;
        profile.shadow_bytes += sign * size_classes[offset / CLASS_SCALE].bytes;
    }
}

static struct record *find_or_make(uintptr_t address) {
    struct record *record = table_find(&profile.live, address);
    return record != NULL ? record : table_insert(&profile.live, address);
}

/* profile_add without the lock. */
static bool add(const struct sample *sample) {
    struct tally *tally = origins_tally(&profile.origins, sample->frames, sample->depth, sample->size);
    struct tally *total = tally == NULL || sample->chosen == sample->size
                              ? tally
                              : origins_tally_of(&profile.origins, tally->origin, sample->chosen);
    struct record *record = total == NULL ? NULL : find_or_make(sample->address);
    if (record == NULL) {
        return false;
    }
    count_live(record, false);
    *record = (struct record){.address = sample->address,
                              .shadow = sample->shadow,
                              .tally = tally,
                              .size = sample->size,
                              .since_ms = os_now_ms(),
                              .run = profile.run};
    count_live(record, true);
    count_total(total, sample->chosen);
    count_shadow(sample->shadow, true);
    return true;
}

/* Forgets a block; returns its shadow. */
static void *drop(struct record *record) {
    void *shadow = record->shadow;
    count_live(record, false);
    count_shadow(shadow, false);
    table_remove(&profile.live, record);
    return shadow;
}

/* Gives a block its new size; false if it does not stay sampled. So that estimates remain unbiased, a
 * block that has shrunk stays with the new size's chance divided by the old one's; one that has grown,
 * without a sample falling into what it grew by, stays, and from now on stands for as many blocks as
 * its new size says. */
static bool resize(struct record *record, size_t size) {
    if (size < record->size &&
        poisson_random(&profile.random) * poisson_chance((double)record->size, profile.interval) >=
            poisson_chance((double)size, profile.interval)) {
        return false;
    }
    bool counted = record->run == profile.run;
    struct tally *tally =
        counted ? origins_tally_of(&profile.origins, record->tally->origin, size) : record->tally;
    if (tally == NULL) {
        return false;
    }
    count_live(record, false);
    record->tally = tally;
    record->size = size;
    count_live(record, true);
    return true;
}

/* Takes the memory that the table needs for more records without the lock, which is held before and after.
 * One thread does; what others insert meanwhile, there is room for. */
static COLD void grow_table(void) {
    if (profile.grows) {
        return;
    }
    size_t bytes = table_larger_bytes(&profile.live);
    profile.grows = true;
    lock_release(&profile.lock);
    struct record *unused = pages_take_touched(bytes);
    size_t unused_bytes = bytes;
    lock_acquire(&profile.lock);
    if (unused != NULL && table_larger_bytes(&profile.live) == bytes) {
        unused_bytes = table_bytes(&profile.live);
        unused = table_move(&profile.live, unused, bytes);
    }
    lock_release(&profile.lock);
    pages_give(unused, unused_bytes);
    lock_acquire(&profile.lock);
    profile.grows = false;
}

bool profile_add(const struct sample *sample, uint64_t run) {
    struct floating held = floating_hold();
    lock_acquire(&profile.lock);
    if (UNLIKELY(table_wants_more(&profile.live))) {
        grow_table();
    }
    /* relaxed: it is written under the lock */
    bool switched = run != atomic_load_explicit(&profile_switch.run, memory_order_relaxed);
    bool added = !switched && add(sample);
    unsigned factor = added && profile.may_thin ? thinning_factor() : 1;
    if (UNLIKELY(factor > 1)) {
        thinning_to(profile.interval * factor);
        set_interval(profile.interval);
    }
    profile_release();
    floating_restore(held);
    if (!added && !switched) {
        report_fallback(FALLBACK_PROFILE_WITHOUT_MEMORY, sample->size);
    }
    return added;
}

void *profile_remove(uintptr_t address) {
    struct floating held = floating_hold();
    lock_acquire(&profile.lock);
    struct record *record = table_find(&profile.live, address);
    void *shadow = record == NULL ? NULL : drop(record);
    profile_release();
    floating_restore(held);
    return shadow;
}

COLD bool profile_resize(uintptr_t address, size_t size) {
    struct floating held = floating_hold();
    lock_acquire(&profile.lock);
    struct record *record = table_find(&profile.live, address);
    bool kept = record != NULL && resize(record, size);
    if (record != NULL && !kept) {
        drop(record);
    }
    profile_release();
    floating_restore(held);
    return kept;
}

COLD void profile_rename(uintptr_t from, uintptr_t to) {
    lock_acquire(&profile.lock);
    struct record *record = table_find(&profile.live, from);
    if (record != NULL) {
        struct record moved = *record;
        table_remove(&profile.live, record); /* makes the room for the insertion, which so cannot fail */
        moved.address = to;
        *table_insert(&profile.live, to) = moved;
    }
    profile_release();
}

uint64_t profile_live_bytes(void) {
    return atomic_load_explicit(&profile.bytes, memory_order_relaxed);
}

void profile_costs(struct profile_costs *out) {
    lock_acquire(&profile.lock);
    const struct origins *origins = &profile.origins;
    size_t unused = (size_t)(origins->room_end - origins->room);
    out->table_bytes = round_up(profile.live.capacity * sizeof *profile.live.slots, OS_PAGE_BYTES) +
                       round_up(origins->capacity * sizeof(struct origin *), OS_PAGE_BYTES) +
                       round_up(origins->taken_bytes - unused, OS_PAGE_BYTES);
    out->shadow_blocks = profile.shadow_blocks;
    out->shadow_bytes = profile.shadow_bytes;
    profile_release();
}

void profile_lock_for_fork(void) {
    lock_acquire(&profile.lock);
}

void profile_unlock_after_fork(bool child) {
    if (child) {
        profile.grows = false; /* another thread's doing */
    }
    lock_end_fork(&profile.lock, child);
}
