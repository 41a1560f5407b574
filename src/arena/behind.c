#include "arena/behind.h"

#include "arena/bound.h"
#include "arena/internal.h"
#include "arena/run.h"
#include "arena/waiting.h"

static void hide(struct superslab *state, uint32_t slabs) {
    state->hidden = slabs;
    state->dirty &= ~slabs;
    arena.dirty_slabs -= bit_count(slabs);
    arena.hidden_slabs += bit_count(slabs);
}

static bool show(struct superslab *state, uint32_t slabs) {
    uint32_t shown = state->hidden & slabs;
    state->hidden &= ~shown;
    state->dirty |= shown;
    arena.dirty_slabs += bit_count(shown);
    arena.hidden_slabs -= bit_count(shown);
    return shown != 0;
}

void behind_keep(struct superslab *state, uint32_t slabs) {
    state->behind = slabs;
    state->dirty &= slabs;
    if ((arena.hidden_slabs + bit_count(state->dirty)) << SLAB_SHIFT <= arena_share_bytes()) {
        hide(state, state->dirty);
    }
}

void behind_leave(struct region *r, size_t superslab, uint32_t slabs) {
    struct superslab *state = &r->states[superslab];
    state->behind |= slabs;
    state->dirty |= slabs;
    arena.used_slabs -= bit_count(slabs);
    arena.dirty_slabs += bit_count(slabs);
    region_note(r, superslab);
}

void behind_wait(const struct superslab *state, uint32_t slabs) {
    if (UNLIKELY((state->out & state->behind & slabs) != 0)) {
        arena_wait_for_purge();
    }
}

void behind_take(struct region *r, size_t superslab, uint32_t slabs) {
    struct superslab *state = &r->states[superslab];
    show(state, slabs);
    unsigned dirty = bit_count(state->dirty & slabs);
    state->behind &= ~slabs;
    state->dirty &= ~slabs;
    arena_note_taken(dirty, bit_count(slabs) - dirty);
    retention_note_taken(&arena.retention, &state->missed, slabs, GRACE_FOR_EACH);
    region_note(r, superslab);
}

/* Slabs that are being purged become free when that is over (put_back in purge.c). */
void behind_free(struct region *r, size_t superslab, bool resident, bool all) {
    struct superslab *state = &r->states[superslab];
    uint32_t behind = state->behind;
    show(state, behind);
    uint32_t there = behind & ~state->out;
    uint32_t dirty = !resident ? 0 : all ? there : state->dirty & there;
    arena.dirty_slabs -= bit_count(state->dirty & behind);
    arena.dirty_slabs += bit_count(dirty);
    state->dirty = (state->dirty & ~behind) | dirty;
    state->free |= there;
    state->behind = 0;
    region_note(r, superslab);
}

void behind_give_up(struct slab *head) {
    struct region *r = region_of((uintptr_t)head);
    size_t index = region_slab_number(r, head) + arena_run_slabs(head) - 1;
    size_t superslab = index / SLABS_PER_SUPERSLAB;
    struct superslab *state = &r->states[superslab];
    lock_acquire(&arena.lock);
    behind_wait(state, UINT32_MAX);
    show(state, state->behind);
    uint32_t dirty = state->dirty & state->behind;
    head->tail_dirty = head->tail_dirty || dirty != 0;
    state->dirty &= ~dirty;
    arena.dirty_slabs -= bit_count(dirty);
    region_note(r, superslab);
    lock_release(&arena.lock);
}

/* Shows hidden slabs until no more than `most` are left. */
static void show_down_to(size_t most) {
    for (struct region *r = arena.oldest; r != NULL && arena.hidden_slabs > most; r = r->next) {
        for (size_t s = 0; s < r->committed && arena.hidden_slabs > most; s++) {
            if (show(&r->states[s], UINT32_MAX)) {
                region_note(r, s);
            }
        }
    }
}

bool behind_exceeds(void) {
    return arena.hidden_slabs << SLAB_SHIFT > arena_share_bytes();
}

void behind_show_excess(void) {
    if (behind_exceeds()) {
        show_down_to(arena_share_bytes() >> SLAB_SHIFT);
    }
}

void behind_show_all(void) {
    show_down_to(0);
}
