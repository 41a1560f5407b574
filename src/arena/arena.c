#include "arena/arena.h"

#include "arena/decay.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/page_map.h"
#include "arena/place.h"
#include "arena/testimony.h"
#include "options/options.h"
#include "os/os.h"

#include <errno.h>

struct arena arena;

/* 16 MiB. */
#define LARGE_SLABS 256
/* What a program may keep that takes so much again and again, and nothing in between: 8 MiB, and 32 MiB where
 * it has done so more than once (libc keeps up to 64 MiB then). */
#define BREATH_SLABS ((size_t)128)
#define BREATH_MOST_SLABS ((size_t)512)
/* What is breathed does not lie where all of it fits again, nor can what is behind huge blocks: this part of
 * what was in use at most is added to that. */
#define SCATTERED_PART 3
/* Stocks and what is dirty may be more than what is dirty alone by this part. */
#define STOCKS_PART 8
/* In what order blocks are freed decides where stocks hand them out: more of them than caches hold would slow
 * down the program's own loads, however much may be free. */
#define STOCKS_MOST_BYTES ((size_t)2816 << 10)

void arena_init(void) {
    lock_count_apart(&arena.lock);
    page_map_init();
}

void arena_reserve_first(void) {
    lock_acquire(&arena.lock);
    (void)(arena.oldest != NULL || arena_add_region(1, false) != NULL); /* tried again when it is needed */
    lock_release(&arena.lock);
}

struct region *arena_add_region(size_t superslabs, bool only_huge) {
    struct region *r = region_make(superslabs, only_huge);
    if (UNLIKELY(r == NULL) && arena_spared()) {
        r = region_make(superslabs, only_huge);
    }
    if (r != NULL) {
        arena.regions_created++;
        r->next = NULL;
        r->previous = arena.newest;
        *(arena.newest == NULL ? &arena.oldest : &arena.newest->next) = r;
        arena.newest = r;
        if (UNLIKELY(arena.memory_locked)) {
            arena_note_resident(r, 0);
        }
    }
    return r;
}

/* Address space held by regions that no block is in may be what is missing. */
COLD bool arena_end_idle_regions(void) {
    bool ended = false;
    for (struct region *r = arena.oldest, *next; r != NULL; r = next) {
        next = r->next;
        if (r->only_huge && arena_region_idle(r)) {
            arena_end_region(r);
            ended = true;
        }
    }
    return ended;
}

static struct slab *claim(const struct place *place, unsigned slabs, bool *zero) {
    struct region *r = place->region;
    struct superslab *state = &r->states[place->superslab];
    uint32_t mask = bits32_below(slabs) << place->first;
    uint32_t dirty = state->dirty & mask;
    arena.superslabs_opened += state->free == UINT32_MAX;
    if (UNLIKELY((state->ahead & mask) != 0)) {
        dense_note_taken(state, mask);
    }
    state->free &= ~mask;
    state->dirty &= ~mask;
    arena_note_taken(bit_count(dirty), slabs - bit_count(dirty));
    retention_note_taken(&arena.retention, &state->missed, mask & ~dirty,
                         arena.used_slabs < LARGE_SLABS ? GRACE_FOR_EACH : GRACE_FOR_EACH_OF_MANY);
    /* What came with a huge page since: so did all of it, and nothing more will be missed. */
    retention_note_taken(&arena.retention, &state->missed, dirty, GRACE_FOR_EACH);
    *zero = dirty == 0;
    region_note(r, place->superslab);
    return region_slab(r, place->superslab * SLABS_PER_SUPERSLAB + place->first);
}

void arena_note_size(void) {
    atomic_store_explicit(&arena.dirty_seen, arena.dirty_slabs, memory_order_relaxed);
    atomic_store_explicit(&arena.used_seen, arena.used_slabs, memory_order_relaxed);
}

void arena_note_taken(size_t dirty, size_t clean) {
    arena.used_slabs += dirty + clean;
    arena.used_most = max_size(arena.used_most, arena.used_slabs);
    arena.used_unrelieved = max_size(arena.used_unrelieved, arena.used_slabs);
    arena.dirty_slabs -= dirty;
    arena_note_size();
    arena.dirty_low = min_size(arena.dirty_low, arena.dirty_slabs);
}

/* As arena_take_huge: what does not help does not stay. */
static bool find_in_new(unsigned slabs, unsigned alignment_slabs, enum arena_use use, struct place *place) {
    struct region *r = arena_add_region(1, false);
    bool found = r != NULL && place_find(slabs, alignment_slabs, use, place);
    if (r != NULL && !found) {
        arena_end_region(r);
    }
    return found;
}

struct slab *arena_take(unsigned slabs, unsigned alignment_slabs, enum slab_state state, enum arena_use use,
                        struct taken *taken) {
    struct place place;
    struct slab *slab = NULL;
    int saved_errno = errno; /* free may come here, for a stock */
    lock_acquire(&arena.lock);
    bool found =
        place_find(slabs, alignment_slabs, use, &place) || find_in_new(slabs, alignment_slabs, use, &place);
    if (!found) {
        /* Before giving up: what is being purged just now, and address space without a block in it. */
        arena_wait_for_purge();
        found = place_find(slabs, alignment_slabs, use, &place) ||
                place_find_last(slabs, alignment_slabs, &place) ||
                (arena_end_idle_regions() && find_in_new(slabs, alignment_slabs, use, &place));
    }
    if (found) {
        bool opened = place.region->states[place.superslab].free == UINT32_MAX;
        slab = claim(&place, slabs, &taken->zero);
        slab->run_slabs = (uint8_t)slabs;
        /* relaxed: the lock orders both for the arena, the caller's publication for all others */
        atomic_store_explicit(&slab->span_bytes, slabs * SLAB_BYTES, memory_order_relaxed);
        atomic_store_explicit(&slab->state, state, memory_order_relaxed);
        taken->resident = opened && taken->zero && dense_may_be_worth_it(use, arena.used_slabs) &&
                          dense_fill(place.region, place.superslab, slabs, use);
    }
    if (found && (taken->resident || UNLIKELY(arena.ahead_slabs > 0))) {
        /* Others may have given back much meanwhile, and nobody may give back anything later. */
        arena_unlock_within_bound();
    } else {
        lock_release(&arena.lock);
    }
    errno = saved_errno;
    return slab;
}

bool arena_is_scarce(void) {
    return atomic_load_explicit(&arena.is_scarce, memory_order_relaxed);
}

bool arena_is_large(void) {
    return atomic_load_explicit(&arena.used_seen, memory_order_relaxed) >= LARGE_SLABS;
}

size_t arena_used_bytes(void) {
    return atomic_load_explicit(&arena.used_seen, memory_order_relaxed) << SLAB_SHIFT;
}

/* Many threads change it, so it has a line of its own. relaxed: a sum that orders nothing */
static struct { _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t bytes; } slack;

void arena_add_slack(int64_t bytes) {
    atomic_fetch_add_explicit(&slack.bytes, bytes, memory_order_relaxed);
}

int64_t arena_slack(void) {
    return atomic_load_explicit(&slack.bytes, memory_order_relaxed);
}

static struct { _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t bytes; } stocked; /* as above */

void arena_add_stocked(int64_t bytes) {
    atomic_fetch_add_explicit(&stocked.bytes, bytes, memory_order_relaxed);
}

int64_t arena_stocked(void) {
    return atomic_load_explicit(&stocked.bytes, memory_order_relaxed);
}

static struct { _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t slabs; } kept; /* as above */

COLD void arena_add_kept(int64_t slabs) {
    atomic_fetch_add_explicit(&kept.slabs, slabs, memory_order_relaxed);
}

NOINLINE size_t arena_kept_slabs(void) {
    int64_t slabs = atomic_load_explicit(&kept.slabs, memory_order_relaxed);
    return slabs > 0 ? (size_t)slabs : 0;
}

/* Of so many slabs in use, what the program holds. */
static size_t held(size_t used_slabs) {
    int64_t bytes = arena_slack();
    size_t others = (bytes > 0 ? (size_t)bytes >> SLAB_SHIFT : 0) + arena_kept_slabs();
    return used_slabs - min_size(others, used_slabs);
}

size_t arena_share_bytes(void) {
    size_t used = atomic_load_explicit(&arena.used_seen, memory_order_relaxed);
    return retention_share(held(used), arena_is_scarce()) << SLAB_SHIFT;
}

/* Without the library's thread the grace falls with what is in use, and may be less than was seen. */
static size_t grace_bytes(void) {
    return decay_is_on() ? atomic_load_explicit(&arena.grace_seen, memory_order_relaxed) << SLAB_SHIFT : 0;
}

size_t arena_held_bytes(void) {
    return held(atomic_load_explicit(&arena.used_seen, memory_order_relaxed)) << SLAB_SHIFT;
}

/* Of the grace only as much as the program holds: kept runs count as used where the grace is bounded. */
COLD bool arena_may_keep(size_t slabs, bool with_grace) {
    size_t grace = with_grace ? min_size(grace_bytes(), arena_held_bytes()) : 0;
    return !arena_is_scarce() && (arena_kept_slabs() + slabs) << SLAB_SHIFT <= arena_share_bytes() + grace;
}

static size_t bound(size_t grace_most) {
    size_t grace = retention_grace(&arena.retention, grace_most);
    atomic_store_explicit(&arena.grace_seen, grace, memory_order_relaxed);
    size_t all = retention_share(held(arena.used_slabs), arena.retention.scarce) + grace;
    return all - min_size(arena_kept_slabs(), all);
}

/* In proportion to what was in use before. */
static size_t fallen_grace(size_t used, size_t before) {
    return arena.retention.grace * min_size(used, before) / max_size(before, 1);
}

/* Nobody gives it back once the program falls asleep: one that uses little, in however many slabs, shall keep
 * little, and what a program has come to use less of, that much less. */
static size_t most_grace_without_thread(void) {
    size_t used = held(arena.used_slabs);
    size_t most = max_size(arena.used_most, arena.used_most_before);
    size_t for_these = min_size(fallen_grace(used, most), used);
    size_t least = max_size(for_these, min_size(arena.used_most, BREATH_SLABS));
    size_t all = arena.used_most + arena.used_most / SCATTERED_PART;
    size_t breath = min_size(least + retention_breath(&arena.retention), BREATH_MOST_SLABS);
    return max_size(least, min_size(all - min_size(arena.used_slabs, all), breath));
}

size_t arena_bound_without_thread(void) {
    return bound(most_grace_without_thread());
}

COLD void arena_begin_period(void) {
    if (!decay_is_on()) { /* one that breathes has as much in use at most in each period */
        size_t least = min_size(arena.retention.grace, BREATH_SLABS);
        arena.retention.grace = max_size(fallen_grace(arena.used_most, arena.used_most_before), least);
    }
    arena.used_most_before = arena.used_most;
    arena.used_most = arena.used_slabs;
}

size_t arena_bound(void) {
    return decay_is_on() ? bound(arena.used_most) : arena_bound_without_thread();
}

static int64_t with_stocks(size_t bytes) {
    return (int64_t)(bytes + bytes / STOCKS_PART);
}

/* Stocks and what is dirty, beside kept runs of so many bytes: these alone may use the grace, too. */
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
    /* Of runs alone there may be as much as of what is dirty, which is less then. */
    int64_t dirty = stocks > 0 ? (int64_t)(arena.dirty_slabs << SLAB_SHIFT) : 0;
    return (stocks > 0 || runs > 0) && stocks + dirty > most_beside(runs << SLAB_SHIFT);
}

void arena_free_slabs(struct region *r, size_t first_slab, size_t slabs, size_t resident) {
    arena.used_slabs -= slabs;
    arena.dirty_slabs += resident;
    arena_note_size();
    while (slabs > 0) {
        size_t superslab = first_slab / SLABS_PER_SUPERSLAB;
        unsigned first = (unsigned)(first_slab % SLABS_PER_SUPERSLAB);
        unsigned here = (unsigned)min_size(slabs, SLABS_PER_SUPERSLAB - first);
        unsigned dirty = (unsigned)min_size(resident, here);
        r->states[superslab].free |= bits32_below(here) << first;
        r->states[superslab].dirty |= bits32_below(dirty) << first;
        region_note(r, superslab);
        first_slab += here;
        slabs -= here;
        resident -= dirty;
    }
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
        bool of_breath = !decay_is_on() && arena.retention.grace > most_grace_without_thread();
        arena_purge_over_bound(retention_purge_target(bound), of_breath);
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

void arena_give(struct slab *head, size_t used_bytes, bool bitmap_touched) {
    struct region *r = region_of((uintptr_t)head);
    size_t first = (size_t)(head - region_slab(r, 0));
    lock_acquire(&arena.lock);
    atomic_store_explicit(&head->state, SLAB_FREE, memory_order_relaxed); /* as in arena_take */
    if (bitmap_touched) {
        size_t superslab = first / SLABS_PER_SUPERSLAB;
        r->bitmaps_touched[superslab / 64] |= (uint64_t)1 << (superslab % 64);
    }
    arena_free_slabs(r, first, head->run_slabs, round_up(used_bytes, SLAB_BYTES) >> SLAB_SHIFT);
    arena_unlock_within_bound();
}

COLD bool arena_resize(struct slab *head, unsigned slabs) {
    struct region *r = region_of((uintptr_t)head);
    size_t index = (size_t)(head - region_slab(r, 0));
    size_t superslab = index / SLABS_PER_SUPERSLAB;
    unsigned first = (unsigned)(index % SLABS_PER_SUPERSLAB);
    unsigned had = head->run_slabs;
    lock_acquire(&arena.lock);
    if (slabs > had) {
        uint32_t mask = bits32_below(slabs - had) << (first + had) % 32;
        struct place tail = {r, superslab, first + had};
        bool zero;
        if (first + slabs > SLABS_PER_SUPERSLAB || (r->states[superslab].free & mask) != mask) {
            lock_release(&arena.lock);
            return false;
        }
        claim(&tail, slabs - had, &zero);
    } else if (slabs < had) {
        arena_free_slabs(r, index + slabs, had - slabs, had - slabs);
    }
    head->run_slabs = (uint8_t)slabs;
    arena_unlock_within_bound();
    return true;
}

COLD void arena_figures(struct arena_figures *out) {
    lock_acquire(&arena.lock);
    out->used_slabs = arena.used_slabs;
    out->dirty_slabs = arena.dirty_slabs;
    out->purges = arena.purges;
    out->purged_bytes = arena.purged_bytes;
    out->decayed_bytes = arena.decayed_bytes;
    out->hole_bytes = arena.hole_bytes;
    out->superslabs_opened = arena.superslabs_opened;
    out->superslabs_dense = arena.superslabs_dense;
    out->regions_created = arena.regions_created;
    out->retained_limit_bytes = (arena_bound() + arena_kept_slabs()) << SLAB_SHIFT;
    lock_release(&arena.lock);
}

COLD void arena_lock_for_fork(void) {
    testimony_lock_for_fork();
    lock_acquire(&arena.lock);
    arena_wait_for_purge();
}

COLD void arena_unlock_after_fork(bool child) {
    if (child) {
        arena.purge_waiters = 0;
        arena.memory_locked = false; /* nor is it in a child */
        arena_forget_refused();
        decay_lost_by_fork();
    }
    lock_end_fork(&arena.lock, child);
    testimony_unlock_after_fork(child);
}
