#include "arena/bound.h"

#include "arena/decay.h"
#include "arena/internal.h"
#include "arena/purge.h"
#include "options/options.h"

/* What of the grace a program may keep, without the library's thread, that takes so much again and again and
 * nothing in between: 8 MiB, and 32 MiB where it has done so more than once (libc keeps up to 64 MiB
 * then). */
#define BREATH_SLABS ((size_t)128)
#define BREATH_MOST_SLABS ((size_t)512)
/* What is taken again does not always fit into what is free, and never behind huge blocks: the grace and what
 * is in use may together be the most in use and this part more. */
#define SCATTERED_PART 3
/* Stocks and dirty slabs may together be this part more than dirty slabs alone may. */
#define STOCKS_PART 8
/* In what order blocks are freed decides where stocks hand them out: more of them than caches hold would slow
 * down the program's own loads, however much may be free. */
#define STOCKS_MOST_BYTES ((size_t)2816 << 10)

bool arena_is_scarce(void) {
    return atomic_load_explicit(&arena.is_scarce, memory_order_relaxed);
}

bool arena_is_large(void) {
    return atomic_load_explicit(&arena.used_seen, memory_order_relaxed) >= ARENA_LARGE_SLABS;
}

/* A sum that many threads change, on a line of its own. relaxed everywhere: it orders nothing */
struct sum {
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t value;
};

static struct sum slack;   /* bytes of free blocks in slabs */
static struct sum stocked; /* bytes of those in stocks */
static struct sum kept;    /* slabs of the runs that heaps keep */

static inline void add(struct sum *sum, int64_t more) {
    atomic_fetch_add_explicit(&sum->value, more, memory_order_relaxed);
}

static inline int64_t value_of(const struct sum *sum) {
    return atomic_load_explicit(&sum->value, memory_order_relaxed);
}

void arena_add_slack(int64_t bytes) {
    add(&slack, bytes);
}

int64_t arena_slack(void) {
    return value_of(&slack);
}

void arena_add_stocked(int64_t bytes) {
    add(&stocked, bytes);
}

int64_t arena_stocked(void) {
    return value_of(&stocked);
}

COLD void arena_add_kept(int64_t slabs) {
    add(&kept, slabs);
}

NOINLINE size_t arena_kept_slabs(void) {
    int64_t slabs = value_of(&kept);
    return slabs > 0 ? (size_t)slabs : 0;
}

/* Slabs that the program holds of `used_slabs`: without slack and kept runs. */
static size_t held(size_t used_slabs) {
    int64_t bytes = arena_slack();
    size_t others = (bytes > 0 ? (size_t)bytes >> SLAB_SHIFT : 0) + arena_kept_slabs();
    return used_slabs - min_size(others, used_slabs);
}

size_t arena_share_bytes(void) {
    size_t used = atomic_load_explicit(&arena.used_seen, memory_order_relaxed);
    return retention_share(held(used), arena_is_scarce()) << SLAB_SHIFT;
}

COLD size_t arena_more_without_scarcity(void) {
    size_t used = held(atomic_load_explicit(&arena.used_seen, memory_order_relaxed));
    size_t share = retention_share(used, false);
    return (2 * share - retention_share(used, true)) << SLAB_SHIFT;
}

/* The grace that was seen last. 0 without the library's thread: the grace then falls with what is in use, and
 * may be less by now. */
static size_t grace_bytes(void) {
    return decay_is_on() ? atomic_load_explicit(&arena.grace_seen, memory_order_relaxed) << SLAB_SHIFT : 0;
}

size_t arena_held_bytes(void) {
    return held(atomic_load_explicit(&arena.used_seen, memory_order_relaxed)) << SLAB_SHIFT;
}

/* No more of the grace than the program holds: where the grace is bounded by what is in use (arena_bound),
 * kept runs are a part of that. */
COLD bool arena_may_keep(size_t slabs, bool with_grace) {
    size_t grace = with_grace ? min_size(grace_bytes(), arena_held_bytes()) : 0;
    return !arena_is_scarce() && (arena_kept_slabs() + slabs) << SLAB_SHIFT <= arena_share_bytes() + grace;
}

/* Free slabs that may be resident, with a grace of `grace_most` at most. */
static size_t bound(size_t grace_most) {
    size_t grace = retention_grace(&arena.retention, grace_most);
    atomic_store_explicit(&arena.grace_seen, grace, memory_order_relaxed);
    size_t share = retention_share(held(arena.used_slabs), arena.retention.scarce);
    size_t kept_runs = arena_kept_slabs();
    arena.needs_grace |= arena.dirty_slabs + kept_runs > share;
    return share + grace - min_size(kept_runs, share + grace);
}

/* The grace, in proportion to `used` where that is less than what was in use `before`. */
static size_t fallen_grace(size_t used, size_t before) {
    return arena.retention.grace * min_size(used, before) / max_size(before, 1);
}

/* Without the library's thread nobody gives the grace back once the program falls asleep: one that uses
 * little, in however many slabs, shall keep little, and one that uses less than before shall keep less in
 * proportion. */
static size_t most_grace_without_thread(void) {
    size_t used = held(arena.used_slabs);
    size_t for_these = min_size(fallen_grace(used, arena_used_most()), used);
    size_t least = max_size(for_these, min_size(arena.used_most, BREATH_SLABS));
    size_t all = arena.used_most + arena.used_most / SCATTERED_PART;
    size_t breath = min_size(least + retention_breath(&arena.retention), BREATH_MOST_SLABS);
    return max_size(least, min_size(all - min_size(arena.used_slabs, all), breath));
}

size_t arena_bound_without_thread(void) {
    return bound(most_grace_without_thread());
}

COLD void arena_forget_grace(void) {
    arena.retention.grace = min_size(arena.retention.grace, BREATH_SLABS);
}

COLD void arena_begin_period(void) {
    if (!decay_is_on()) { /* one that breathes has as much in use at most in each period */
        size_t least = min_size(arena.retention.grace, BREATH_SLABS);
        arena.retention.grace = max_size(fallen_grace(arena.used_most, arena.used_most_before), least);
    } else if (arena.needs_grace) {
        arena.grace_unneeded = 0;
    } else if (++arena.grace_unneeded >= GRACE_REMEMBERED_PERIODS) {
        arena_forget_grace();
    }
    arena.needs_grace = false;
    arena.used_most_before = arena.used_most;
    arena.used_most = arena.used_slabs;
}

size_t arena_bound(void) {
    return decay_is_on() ? bound(arena_used_most()) : arena_bound_without_thread();
}

static int64_t with_stocks(size_t bytes) {
    return (int64_t)(bytes + bytes / STOCKS_PART);
}

/* The most that stocks and dirty slabs may be, in bytes, beside `kept_bytes` in kept runs: only these may use
 * the grace, too. */
static int64_t most_beside(size_t kept_bytes) {
    size_t grace = min_size(grace_bytes(), kept_bytes);
    return with_stocks(arena_share_bytes()) + (int64_t)grace - (int64_t)kept_bytes;
}

int64_t arena_stock_room(void) {
    size_t dirty = atomic_load_explicit(&arena.dirty_seen, memory_order_relaxed);
    int64_t room = most_beside(arena_kept_slabs() << SLAB_SHIFT) - (int64_t)(dirty << SLAB_SHIFT);
    size_t least = min_size(option_number(OPTION_RETAIN_MIN), STOCKS_MOST_BYTES);
    int64_t most = arena_is_scarce() ? 0 : with_stocks(least);
    return (room < most ? room : most) - arena_stocked();
}

bool arena_has_too_much_stocked(void) {
    size_t runs = arena_kept_slabs();
    int64_t stocks = arena_stocked();
    /* Where there are no stocks, kept runs may be as much as dirty slabs may, and arena_bound is lower by
     * them. */
    int64_t dirty = stocks > 0 ? (int64_t)(arena.dirty_slabs << SLAB_SHIFT) : 0;
    return (stocks > 0 || runs > 0) && stocks + dirty > most_beside(runs << SLAB_SHIFT);
}

/* Whether so little is dirty that it would be within the bound of a program that holds nothing. Most frees
 * come no further, and the exact bound takes some 250 instructions. */
static bool is_within_any_bound(void) {
    size_t least = retention_bound(&arena.retention, 0, min_size(arena.used_most, BREATH_SLABS));
    return arena.dirty_slabs + arena_kept_slabs() <= least;
}

void arena_unlock_within_bound(void) {
    size_t bound = is_within_any_bound() ? arena.dirty_slabs : arena_bound();
    if (UNLIKELY(arena.dirty_slabs > bound) && arena.dirty_slabs > bound + arena_refused_slabs()) {
        bool withheld = !decay_is_on() && arena.retention.grace > most_grace_without_thread();
        arena_purge_over_bound(retention_purge_target(bound), withheld);
    }
    arena_note_size();
    enum decay_work work = decay_due();
    lock_release(&arena.lock);
    if (UNLIKELY(work != DECAY_NOTHING)) {
        decay_do(work);
    }
}

void arena_look(void) {
    /* relaxed: a hint, and others who exceed the bound look for themselves */
    size_t dirty = atomic_load_explicit(&arena.dirty_seen, memory_order_relaxed) + arena_kept_slabs();
    if (dirty << SLAB_SHIFT > arena_share_bytes() + grace_bytes()) {
        lock_acquire(&arena.lock);
        arena_unlock_within_bound();
    }
}
