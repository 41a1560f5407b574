#include "arena/arena.h"

#include "arena/address_space.h"
#include "arena/bound.h"
#include "arena/decay.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/page_map.h"
#include "arena/place.h"
#include "arena/purge.h"
#include "arena/testimony.h"
#include "arena/waiting.h"

#include <errno.h>

struct arena arena;

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
        r->locked = arena.locked_in_new;
        if (UNLIKELY(r->locked)) {
            arena_note_resident(r, 0);
        }
    }
    return r;
}

RARE bool arena_region_idle(const struct region *r) {
    size_t first = r->first_free_slab / SLABS_PER_SUPERSLAB;
    for (size_t s = first; s < r->committed; s++) {
        unsigned metadata = s == first ? r->first_free_slab % SLABS_PER_SUPERSLAB : 0;
        if ((r->states[s].free | bits32_below(metadata)) != UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static RARE void forget(struct region *r) {
    for (size_t s = 0; s < r->committed; s++) {
        arena.dirty_slabs -= bit_count(r->states[s].dirty);
        dense_note_ahead(&r->states[s], 0);
    }
    if (arena.left.region == r) {
        arena.left.region = NULL;
    }
    *(r->previous == NULL ? &arena.oldest : &r->previous->next) = r->next;
    *(r->next == NULL ? &arena.newest : &r->next->previous) = r->previous;
    region_forget(r);
}

RARE void arena_end_region(struct region *r) {
    forget(r);
    region_unmap(r);
}

RARE void arena_end_resident_region(struct region *r) {
    forget(r);
    arena_begin_purging();
    lock_release(&arena.lock);
    region_unmap(r);
    lock_acquire(&arena.lock);
    arena_end_purging();
}

/* Ends the regions for huge blocks that no block is in: the address space that they hold may be what is
 * missing. */
RARE bool arena_end_idle_regions(void) {
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
                         arena.used_slabs < ARENA_LARGE_SLABS ? GRACE_FOR_EACH : GRACE_FOR_EACH_OF_MANY);
    /* Slabs that were purged and are dirty again came with a huge page, as did the rest of the superslab: no
     * more of it will be missed, so each adds to the grace just once. */
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

/* Looks for the run in a new region. One that does not help must not stay, or each failure would leave one
 * more. */
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
        /* Before giving up: waits for what is being purged, looks at every superslab, and makes room for a
         * new region by ending those without a block. */
        arena_wait_for_purge();
        found = place_find(slabs, alignment_slabs, use, &place) ||
                place_find_last(slabs, alignment_slabs, &place) ||
                (arena_end_idle_regions() && find_in_new(slabs, alignment_slabs, use, &place));
    }
    if (found) {
        bool opened = place.region->states[place.superslab].free == UINT32_MAX;
        if (use == ARENA_USE_OWN) {
            arena.used_slabs -= slabs; /* claim adds them */
        }
        slab = claim(&place, slabs, &taken->zero);
        slab->run_slabs = (uint8_t)slabs;
        /* relaxed: the lock orders both for the arena, the caller's publication for all others */
        atomic_store_explicit(&slab->span_bytes, slabs * SLAB_BYTES, memory_order_relaxed);
        atomic_store_explicit(&slab->tail, TAIL_CLEAN, memory_order_relaxed);
        atomic_store_explicit(&slab->state, state, memory_order_relaxed);
        taken->resident = opened && taken->zero &&
                          dense_may_be_worth_it(use, arena.used_slabs, arena_used_most()) &&
                          dense_fill(place.region, place.superslab, slabs, use);
    }
    if (found && (taken->resident || UNLIKELY(arena.ahead_slabs > 0))) {
        /* While dense_fill had let go of the lock, others may have given back much; what is over the bound is
         * purged now, because nobody may give back anything later. */
        arena_unlock_within_bound();
    } else {
        lock_release(&arena.lock);
    }
    errno = saved_errno;
    return slab;
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

void arena_give(struct slab *head, size_t used_bytes, bool bitmap_touched) {
    struct region *r = region_of((uintptr_t)head);
    size_t first = region_slab_number(r, head);
    lock_acquire(&arena.lock);
    atomic_store_explicit(&head->state, SLAB_FREE, memory_order_relaxed); /* the lock orders it */
    if (bitmap_touched) {
        bitmap_add(r->bitmaps_touched, first / SLABS_PER_SUPERSLAB);
    }
    arena_free_slabs(r, first, head->run_slabs, round_up(used_bytes, SLAB_BYTES) >> SLAB_SHIFT);
    arena_unlock_within_bound();
}

COLD bool arena_resize(struct slab *head, unsigned slabs) {
    struct region *r = region_of((uintptr_t)head);
    size_t index = region_slab_number(r, head);
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
    out->retained_limit_bytes = (arena_bound() + arena_kept_slabs() + arena.hidden_slabs) << SLAB_SHIFT;
    out->is_scarce = arena.retention.scarce;
    lock_release(&arena.lock);
}

COLD void arena_follow_into_child(void) {
    arena.memory_locked = arena.locked_in_new = false;
    backoff_end(&arena.refused);
}

RARE void arena_lock_for_fork(void) {
    testimony_lock_for_fork();
    lock_acquire(&arena.lock);
    arena_wait_for_purge();
}

RARE void arena_unlock_after_fork(bool child) {
    if (child) {
        arena.purge_waiters = arena.held_back = 0;
        atomic_store_explicit(&arena.purging, 0, memory_order_relaxed);
        atomic_store_explicit(&arena.end_waiters, 0, memory_order_relaxed);
        arena_follow_into_child();
        arena_forget_refused();
        decay_lost_by_fork();
    }
    lock_end_fork(&arena.lock, child);
    testimony_unlock_after_fork(child);
}
