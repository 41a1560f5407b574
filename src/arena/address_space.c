#include "arena/address_space.h"

#include "arena/bound.h"
#include "arena/internal.h"
#include "arena/page_map.h"
#include "os/os.h"

/* arena_lock_in_time tries so often at once, some 10 µs long, and after each millisecond again, for a second
 * in all. */
#define TRIES_IN_TIME 1000
#define TRIES_AT_ONCE 1000

COLD bool arena_lock_in_time(void) {
    for (unsigned i = 0; i < TRIES_IN_TIME; i++) {
        for (unsigned k = 0; k < TRIES_AT_ONCE; k++) {
            if (lock_try(&arena.lock)) {
                return true;
            }
        }
        os_sleep_ms(1);
    }
    return false;
}

/* Gives up what of the address space serves speed alone, or is more than the limit allows. False if there is
 * nothing of it. Arena lock held. */
static COLD bool spare(void) {
    bool spared = page_map_retreat(arena.oldest);
    for (struct region *r = arena.oldest; r != NULL; r = r->next) {
        spared = region_cut(r) || spared;
    }
    return spared;
}

COLD void arena_spare_address_space(size_t limit_bytes) {
    if (!page_map_may_be_flat(limit_bytes) && arena_lock_in_time()) {
        (void)spare();
        lock_release(&arena.lock);
    }
}

COLD bool arena_spared(void) {
    return !page_map_may_be_flat(os_address_space_limit()) && spare();
}

COLD void arena_note_resident(struct region *r, uint32_t first) {
    for (uint32_t s = first; s < r->committed; s++) {
        struct superslab *state = &r->states[s];
        arena.dirty_slabs += bit_count(state->free & ~state->dirty);
        state->dirty |= state->free;
        region_note(r, s);
    }
}

bool arena_commit(struct region *r, uint32_t count) {
    uint32_t had = r->committed;
    bool locked = arena.memory_locked && r->locked;
    /* What is reserved already the kernel does not lock because later mappings are to be. */
    enum region_commit unlocked = arena.locked_in_new ? REGION_LOCKS : REGION_COMMITS_MORE;
    enum region_commit how = locked ? REGION_IS_LOCKED : unlocked;
    bool done = region_commit(r, count, how);
    if (UNLIKELY(how != REGION_COMMITS_MORE)) {
        arena_note_resident(r, had);
    }
    return done;
}

COLD void arena_note_locked(bool now, bool later) {
    if (!arena_lock_in_time()) {
        return;
    }
    for (struct region *r = arena.oldest; r != NULL; r = r->next) {
        r->locked = now || (arena.memory_locked && r->locked);
        if (now) {
            arena_note_resident(r, 0);
        }
    }
    arena.memory_locked = true;
    arena.locked_in_new = later;
    arena_unlock_within_bound();
}

COLD void arena_note_unlocked(void) {
    if (arena_lock_in_time()) {
        arena.memory_locked = arena.locked_in_new = false;
        arena_unlock_within_bound();
    }
}
