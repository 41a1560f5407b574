#include "arena/place.h"

#include "arena/address_space.h"
#include "arena/internal.h"

/* Superslabs looked at before the search takes the first that is sure to fit. */
#define CANDIDATES_MAX 64
/* How many superslabs that have no wholly resident run count as one that was looked at, in the search for
 * such a run. */
#define GLANCES 2

/* A mask of the slabs of a superslab that lie on multiples of `alignment_slabs`. */
static uint32_t aligned_places(unsigned alignment_slabs) {
    static const uint32_t places[] = {0xFFFFFFFF, 0x55555555, 0x11111111, 0x01010101, 0x00010001, 0x00000001};
    return places[log2_ceil(alignment_slabs)];
}

/* Doublings of a run's length up to a superslab's. */
#define RUN_DOUBLINGS 5
_Static_assert(1u << RUN_DOUBLINGS == SLABS_PER_SUPERSLAB, "runs are found by so many steps");

/* What a search may take. What became resident ahead of use is for those that fill their runs: others would
 * make the program pay for pages that it may never touch. */
struct wanted {
    unsigned slabs, alignment_slabs;
    bool with_ahead;
    uint32_t places; /* where a run may begin in a superslab */
    /* A mask that is and-ed with itself, shifted by each of these in turn, is left with the starts of runs of
     * `slabs`; 0 where fewer steps are enough. */
    uint8_t shifts[RUN_DOUBLINGS];
};

static struct wanted want(unsigned slabs, unsigned alignment_slabs, bool with_ahead) {
    struct wanted wanted = {slabs, alignment_slabs, with_ahead, aligned_places(alignment_slabs), {0}};
    unsigned steps = 0;
    for (unsigned length = 1; length < slabs; length += wanted.shifts[steps++]) {
        wanted.shifts[steps] = (uint8_t)min_size(length, slabs - length);
    }
    return wanted;
}

/* The bits of the mask at which a wanted run begins. Without a branch, as none of them could be foretold. */
static inline uint32_t fitting(uint32_t mask, const struct wanted *wanted) {
    const uint8_t *shifts = wanted->shifts;
    mask &= mask >> shifts[0];
    mask &= mask >> shifts[1];
    mask &= mask >> shifts[2];
    mask &= mask >> shifts[3];
    mask &= mask >> shifts[4];
    return mask & wanted->places;
}

/* What of a superslab's free and dirty slabs the search may take. */
static struct superslab usable(const struct superslab *state, const struct wanted *wanted) {
    uint32_t free = state->free & ~(wanted->with_ahead ? 0 : state->ahead);
    return (struct superslab){.free = free, .dirty = state->dirty & free};
}

static size_t bitmap_words(const struct region *r) {
    return (r->superslabs + 63) / 64;
}

/* Finds the lowest run among the first `candidates` superslabs that the bitmap names, or among all of them if
 * that is negative. */
static bool search(struct region *r, const uint64_t *bitmap, const struct wanted *wanted, int candidates,
                   struct place *out) {
    for (size_t w = 0; w < bitmap_words(r) && candidates != 0; w++) {
        for (uint64_t bits = bitmap[w]; bits != 0 && candidates != 0; bits &= bits - 1) {
            size_t superslab = w * 64 + bit_lowest(bits);
            struct superslab state = usable(&r->states[superslab], wanted);
            uint32_t starts = fitting(state.free, wanted);
            if (starts != 0) {
                *out = (struct place){r, superslab, bit_lowest(starts)};
                return true;
            }
            candidates--;
        }
    }
    return false;
}

/* How good a place is: by the slabs that need no page from the OS, then by how little it leaves of the free
 * run that it is in, so that long ones stay. */
struct merit {
    unsigned dirty, hole;
};

static bool better(struct merit a, struct merit b) {
    return a.dirty != b.dirty ? a.dirty > b.dirty : a.hole < b.hole;
}

/* The best start in a superslab, the lowest of equals. Where no run is wholly resident, the ends of the free
 * ones are looked at and no place between. */
static struct merit best_start(const struct superslab *state, const struct wanted *wanted, unsigned *first) {
    const unsigned slabs = wanted->slabs;
    struct merit best = {0, SLABS_PER_SUPERSLAB + 1};
    uint32_t whole = fitting(state->dirty, wanted);
    uint32_t starts = whole != 0 ? whole : fitting(state->free, wanted);
    while (starts != 0) {
        unsigned begin = bit_lowest(starts);
        uint32_t taken = ~state->free & ~bits32_below(begin);
        unsigned end = taken == 0 ? SLABS_PER_SUPERSLAB : bit_lowest(taken);
        uint32_t here = starts & bits32_below(end);
        uint32_t before = ~state->free & bits32_below(begin);
        struct merit merit = {slabs, end - (before == 0 ? 0 : bit_highest(before) + 1)};
        unsigned start = begin;
        if (whole == 0) {
            unsigned last = bit_highest(here);
            unsigned low = bit_count(state->dirty >> begin & bits32_below(slabs));
            unsigned high = bit_count(state->dirty >> last & bits32_below(slabs));
            start = high > low ? last : begin;
            merit.dirty = high > low ? high : low;
        }
        if (better(merit, best)) {
            best = merit;
            *first = start;
        }
        starts &= ~here;
    }
    return best;
}

/* What a search for resident memory has found so far, and how far it may go on. */
struct best {
    struct merit merit;
    struct place place;
    int candidates;
};

/* Looks for a better place in a superslab. False if there can be none better than the best by now. */
static bool look_at(struct region *r, size_t superslab, const struct wanted *wanted, bool whole,
                    struct best *best) {
    struct superslab state = usable(&r->states[superslab], wanted);
    unsigned first = 0;
    if (whole && fitting(state.dirty, wanted) == 0) {
        best->candidates--;
        return true;
    }
    best->candidates -= GLANCES;
    struct merit merit = best_start(&state, wanted, &first);
    if (merit.dirty == 0 || !better(merit, best->merit)) {
        return true;
    }
    best->merit = merit;
    best->place = (struct place){r, superslab, first};
    return merit.dirty < wanted->slabs || (wanted->slabs > 1 && merit.hole > wanted->slabs);
}

/* Looks for a better place in a region. False if the search is over. */
static bool look_at_region(struct region *r, const struct wanted *wanted, bool whole, struct best *best) {
    const uint64_t *may_fit = r->avail[bit_highest(wanted->slabs)];
    for (size_t w = 0; w < bitmap_words(r); w++) {
        uint64_t ahead = wanted->with_ahead ? r->ahead[w] : 0;
        for (uint64_t bits = (r->dirty[w] & may_fit[w]) | ahead; bits != 0; bits &= bits - 1) {
            if (!look_at(r, w * 64 + bit_lowest(bits), wanted, whole, best) || best->candidates <= 0) {
                return false;
            }
        }
    }
    return true;
}

/* The best place among superslabs that have resident slabs to give; `whole` looks only at those where all of
 * the run can be resident. */
static bool search_dirty(const struct wanted *wanted, bool whole, struct place *out) {
    struct best best = {.merit = {0, SLABS_PER_SUPERSLAB + 1}, .candidates = CANDIDATES_MAX * GLANCES};
    struct region *r = arena.oldest;
    while (r != NULL && (r->only_huge || look_at_region(r, wanted, whole, &best))) {
        r = r->next;
    }
    *out = best.place;
    return best.merit.dirty > 0;
}

/* Resident memory first, then the lowest address: what is in use stays close together. */
static bool find_within(const struct wanted *wanted, struct place *out) {
    unsigned slabs = wanted->slabs;
    if ((arena.dirty_slabs >= slabs && search_dirty(wanted, true, out)) ||
        (arena.dirty_slabs > 0 && slabs > 1 && search_dirty(wanted, false, out))) {
        return true;
    }
    /* A free run of 2^sure slabs has a place for the wanted one, wherever it begins. */
    unsigned sure = log2_ceil(min_size(slabs + wanted->alignment_slabs - 1, SLABS_PER_SUPERSLAB));
    for (struct region *r = arena.oldest; r != NULL; r = r->next) {
        if (r->only_huge) {
            continue;
        }
        for (unsigned level = bit_highest(slabs); level < sure; level++) {
            if (search(r, r->avail[level], wanted, CANDIDATES_MAX, out)) {
                return true;
            }
        }
        if (search(r, r->avail[sure], wanted, 1, out)) {
            return true;
        }
        if (r->committed < r->superslabs && arena_commit(r, r->committed + 1)) {
            return search(r, r->avail[AVAIL_LEVELS - 1], wanted, 1, out);
        }
    }
    return false;
}

RARE bool place_find_last(unsigned slabs, unsigned alignment_slabs, struct place *out) {
    struct wanted wanted = want(slabs, alignment_slabs, true);
    for (struct region *r = arena.oldest; r != NULL; r = r->next) {
        bool found = !r->only_huge && (search(r, r->avail[bit_highest(slabs)], &wanted, -1, out) ||
                                       search(r, r->ahead, &wanted, -1, out));
        if (found) {
            return true;
        }
    }
    return false;
}

bool place_find(unsigned slabs, unsigned alignment_slabs, enum arena_use use, struct place *out) {
    struct wanted wanted = want(slabs, alignment_slabs, use > ARENA_USE_UNKNOWN);
    if (find_within(&wanted, out)) {
        return true;
    }
    bool may_help = !wanted.with_ahead && arena.ahead_slabs > 0;
    wanted.with_ahead = true; /* what is ahead, too, before address space is reserved for a new region */
    return may_help && find_within(&wanted, out);
}
