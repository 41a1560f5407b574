#include "arena/dense.h"

#include "arena/internal.h"
#include "options/options.h"
#include "os/os.h"

/* A kernel that had none to give is asked again after so many superslabs, and then after twice as many. */
#define REFUSED_LEAST 8u
#define REFUSED_MOST 1024u

static uint32_t to_skip, skipped_last; /* under the arena's lock */

static uint64_t *word_of(struct region *r, size_t superslab, uint64_t *bit) {
    *bit = (uint64_t)1 << (superslab % 64);
    return &r->huge[superslab / 64];
}

static bool is_worth_it(const struct superslab *state) {
    size_t rest = bit_count(state->free);
    size_t bound = retention_bound(&arena.retention, arena.used_slabs);
    return option_bool(OPTION_HUGE_PAGES) && !arena.retention.scarce && state->dirty == 0 &&
           arena.used_slabs >= (size_t)DENSE_PART * SLABS_PER_SUPERSLAB &&
           arena.dirty_slabs + rest <= retention_purge_target(bound);
}

static void note_answer(bool given) {
    skipped_last = given               ? 0
                   : skipped_last == 0 ? REFUSED_LEAST
                                       : (uint32_t)min_size(2 * (size_t)skipped_last, REFUSED_MOST);
    to_skip = skipped_last;
}

bool dense_fill(struct region *r, size_t superslab) {
    struct superslab *state = &r->states[superslab];
    if (!is_worth_it(state)) {
        return false;
    }
    if (to_skip > 0) {
        to_skip--;
        return false;
    }
    uint32_t rest = state->free;
    state->free = 0; /* out of circulation, as what is being purged */
    region_note(r, superslab);
    arena_begin_purging();
    lock_release(&arena.lock);
    bool given = os_back_by_huge_page((void *)region_superslab_address(r, superslab));
    lock_acquire(&arena.lock);
    arena_end_purging();
    state->free |= rest; /* of those in use some may have come back */
    if (given) {
        uint64_t bit;
        *word_of(r, superslab, &bit) |= bit;
        state->dirty |= rest;
        arena.dirty_slabs += bit_count(rest);
        arena.superslabs_dense++;
    }
    region_note(r, superslab);
    note_answer(given);
    return given;
}

bool dense_note_purged(struct region *r, size_t superslab, bool whole) {
    uint64_t bit;
    uint64_t *word = word_of(r, superslab, &bit);
    bool was = (*word & bit) != 0;
    *word &= ~bit; /* the kernel splits all of it */
    return was && !whole;
}

void dense_split(uintptr_t start, uintptr_t end) {
    uintptr_t first = round_up(start, SUPERSLAB_BYTES);
    uintptr_t last = round_down(end, SUPERSLAB_BYTES);
    if (first > start) {
        os_split_huge_page((void *)start, min_size(first, end) - start);
    }
    if (last < end && last >= first) {
        os_split_huge_page((void *)last, end - last);
    }
}
