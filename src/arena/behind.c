#include "arena/behind.h"

#include "arena/arena.h"
#include "arena/internal.h"

void behind_keep(struct superslab *state, uint32_t slabs) {
    state->behind = slabs;
    state->dirty &= slabs;
    arena.behind_slabs += bit_count(state->dirty);
}

void behind_leave(struct region *r, size_t superslab, uint32_t slabs) {
    struct superslab *state = &r->states[superslab];
    state->behind |= slabs;
    state->dirty |= slabs;
    arena.used_slabs -= bit_count(slabs);
    arena.dirty_slabs += bit_count(slabs);
    arena.behind_slabs += bit_count(slabs);
    region_note(r, superslab);
}

void behind_wait(const struct superslab *state, uint32_t slabs) {
    if (UNLIKELY((state->out & state->behind & slabs) != 0)) {
        arena_wait_for_purge();
    }
}

void behind_take(struct region *r, size_t superslab, uint32_t slabs) {
    struct superslab *state = &r->states[superslab];
    unsigned dirty = bit_count(state->dirty & slabs);
    state->behind &= ~slabs;
    state->dirty &= ~slabs;
    arena.behind_slabs -= dirty;
    arena_note_taken(dirty, bit_count(slabs) - dirty);
    retention_note_taken(&arena.retention, &state->missed, slabs, GRACE_FOR_EACH);
    region_note(r, superslab);
}

/* What is being purged of it will be free when that is over. */
void behind_free(struct region *r, size_t superslab, bool resident, bool all) {
    struct superslab *state = &r->states[superslab];
    uint32_t behind = state->behind;
    uint32_t there = behind & ~state->out;
    uint32_t dirty = !resident ? 0 : all ? there : state->dirty & there;
    arena.behind_slabs -= bit_count(state->dirty & behind);
    arena.dirty_slabs -= bit_count(state->dirty & behind);
    arena.dirty_slabs += bit_count(dirty);
    state->dirty = (state->dirty & ~behind) | dirty;
    state->free |= there;
    state->behind = 0;
    region_note(r, superslab);
}

void behind_hide(struct slab *head) {
    struct region *r = region_of((uintptr_t)head);
    size_t index = (size_t)(head - region_slab(r, 0)) + arena_run_slabs(head) - 1;
    size_t superslab = index / SLABS_PER_SUPERSLAB;
    struct superslab *state = &r->states[superslab];
    lock_acquire(&arena.lock);
    behind_wait(state, UINT32_MAX);
    uint32_t dirty = state->dirty & state->behind;
    head->tail_dirty = head->tail_dirty || dirty != 0;
    state->dirty &= ~dirty;
    arena.behind_slabs -= bit_count(dirty);
    arena.dirty_slabs -= bit_count(dirty);
    region_note(r, superslab);
    lock_release(&arena.lock);
}
