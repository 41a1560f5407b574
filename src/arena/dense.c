#include "arena/dense.h"

#include "arena/bound.h"
#include "arena/huge_price.h"
#include "arena/internal.h"
#include "arena/waiting.h"
#include "options/options.h"
#include "os/os.h"

/* When a superslab comes as a huge page, what is resident ahead of use is at most this part of what is in
 * use. */
#define FOR_SLABS_PART 96       /* for small blocks, which leave a part of the last superslab to nobody */
#define FOR_RUNS_PART 8         /* for large blocks of which several fill a superslab */
#define FOR_TAKEN_RUNS_PART 12  /* for others, where blocks of other lengths have taken the rest before */
#define FOR_UNEVEN_RUNS_PART 32 /* for others, which leave the rest to nobody known */
/* Blocks fill a superslab if they leave no more than this part of it. */
#define LEFT_PART 8
/* ahead_offered and ahead_taken are halved when the first is more than so many slabs: what is of late counts
 * more. */
#define OFFERED_REMEMBERED 1024

_Static_assert(SUPERSLAB_BYTES == OS_HUGE_PAGE_BYTES, "a superslab is one huge page");

/* Slabs that came ahead of use of late, without those that runs of `offered_with` slabs took; those that
 * other runs took. Under the arena's lock. */
static size_t ahead_offered, ahead_taken;
static unsigned offered_with; /* length of the run that last brought slabs ahead; under the arena's lock */

/* Whether runs of other lengths took half of what came ahead of use: runs of one length never fill the rest.
 */
static bool has_takers(void) {
    return ahead_taken > 0 && 2 * ahead_taken >= ahead_offered;
}

static size_t part_for(unsigned slabs, enum arena_use use) {
    bool even = SLABS_PER_SUPERSLAB % slabs <= SLABS_PER_SUPERSLAB / LEFT_PART;
    return use == ARENA_FILLS_SLABS ? FOR_SLABS_PART
           : even                   ? FOR_RUNS_PART
           : has_takers()           ? FOR_TAKEN_RUNS_PART
                                    : FOR_UNEVEN_RUNS_PART;
}

/* Whether a program that fills slabs of small blocks has had as much in use of late as it has now with
 * `ahead` slabs more: what it then had, it is about to fill again. */
static bool fills_again(size_t ahead, enum arena_use use) {
    return use == ARENA_FILLS_SLABS && arena.used_slabs + ahead <= arena_used_most();
}

static bool is_worth_it(const struct superslab *state, unsigned slabs, enum arena_use use) {
    size_t rest = bit_count(state->free);
    size_t bound = arena_bound();
    size_t ahead = arena.ahead_slabs + arena.filling_slabs + rest;
    return option_bool(OPTION_HUGE_PAGES) && !arena.retention.scarce &&
           /* No slab of the rest, either: it leaves circulation, and comes back dirty as a whole. */
           state->dirty == 0 &&
           (ahead <= arena.used_slabs / part_for(slabs, use) || fills_again(ahead, use)) &&
           arena.dirty_slabs + arena.filling_slabs + rest <= retention_purge_target(bound);
}

void dense_note_ahead(struct superslab *state, uint32_t ahead) {
    arena.ahead_slabs -= bit_count(state->ahead);
    arena.ahead_slabs += bit_count(ahead);
    state->ahead = ahead;
}

void dense_note_taken(struct superslab *state, uint32_t run) {
    unsigned taken = bit_count(state->ahead & run);
    if (bit_count(run) == offered_with) {
        ahead_offered -= min_size(taken, ahead_offered);
    } else {
        ahead_taken += taken;
    }
    dense_note_ahead(state, state->ahead & ~run);
}

static void note_offered(size_t slabs, unsigned run_slabs) {
    offered_with = run_slabs;
    ahead_offered += slabs;
    if (ahead_offered > OFFERED_REMEMBERED) {
        ahead_offered /= 2;
        ahead_taken /= 2;
    }
}

COLD bool dense_fill(struct region *r, size_t superslab, unsigned slabs, enum arena_use use) {
    struct superslab *state = &r->states[superslab];
    if (!is_worth_it(state, slabs, use) || huge_price_skip(1) > 0) {
        return false;
    }
    uint32_t rest = state->free;
    state->free = 0; /* out of circulation, like slabs that are being purged */
    region_note(r, superslab);
    arena.filling_slabs += bit_count(rest);
    arena_begin_purging();
    uint32_t turn = huge_price_turn();
    lock_release(&arena.lock);
    uint64_t took_ns;
    bool given = os_back_by_huge_page((void *)region_superslab_address(r, superslab), &took_ns);
    lock_acquire(&arena.lock);
    arena_end_purging();
    arena.filling_slabs -= bit_count(rest);
    state->free |= rest;
    if (given) {
        dense_note_huge(r, superslab, 1);
        state->dirty |= rest;
        dense_note_ahead(state, rest);
        arena.dirty_slabs += bit_count(rest);
        note_offered(bit_count(rest), slabs);
        arena.superslabs_dense++;
    }
    region_note(r, superslab);
    (void)huge_price_note(turn, given, took_ns);
    return given;
}

void dense_note_huge(struct region *r, size_t first, size_t count) {
    for (size_t s = first; s < first + count; s++) {
        bitmap_add(r->huge, s);
    }
}

bool dense_superslab_is_huge(const struct region *r, size_t superslab) {
    return bitmap_has(r->huge, superslab);
}

bool dense_is_huge(uintptr_t address) {
    const struct region *r = region_of(address);
    return dense_superslab_is_huge(r, (address - r->base) >> SUPERSLAB_SHIFT);
}

void dense_note_purged(struct region *r, size_t superslab) {
    bitmap_drop(r->huge, superslab);
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
