#include "arena/huge_fit.h"

#include "arena/address_space.h"
#include "arena/internal.h"

bool huge_fit_is_free(const struct region *r, size_t s) {
    return s >= r->committed || r->states[s].free == UINT32_MAX;
}

/* What is searched for. */
struct search {
    struct region *region; /* the first that is searched */
    size_t superslabs;
    size_t step;  /* between places where it may begin */
    size_t room;  /* superslabs that should be free from there on */
    bool sparing; /* rather where little has to be made usable, which the OS has just refused */
};

static size_t dirty_in(const struct region *r, size_t s) {
    return s < r->committed ? bit_count(r->states[s].dirty) : 0;
}

/* Which of 64 superslabs, from the one with the word's first bit on, are wholly free; what is not committed
 * yet is as good as that. */
static uint64_t free_word(const struct region *r, size_t word) {
    size_t first = word * 64;
    uint64_t free = r->avail[AVAIL_LEVELS - 1][word];
    /* avail leaves out superslabs that have slabs ahead, of which some are wholly free. */
    for (uint64_t ahead = r->ahead[word]; ahead != 0; ahead &= ahead - 1) {
        uint64_t bit = ahead & -ahead;
        free |= huge_fit_is_free(r, first + bit_lowest(bit)) ? bit : 0;
    }
    free |= ~bits_below((unsigned)min_size(r->committed - min_size(r->committed, first), 64));
    return free & bits_below((unsigned)min_size(r->superslabs - first, 64));
}

/* The first superslab from `from` on that is wholly free, or that is not if `wholly_free` is false;
 * r->superslabs if there is none. */
static size_t next_of(const struct region *r, size_t from, bool wholly_free) {
    for (size_t w = from / 64; w * 64 < r->superslabs; w++) {
        uint64_t word = wholly_free ? free_word(r, w) : ~free_word(r, w);
        word &= w == from / 64 ? ~bits_below((unsigned)(from % 64)) : UINT64_MAX;
        if (word != 0) {
            return min_size(w * 64 + bit_lowest(word), r->superslabs);
        }
    }
    return r->superslabs;
}

/* Which of the superslabs begin..end-1, of the 64 of this word, have a resident slab. */
static uint64_t dirty_word(const struct region *r, size_t word, size_t begin, size_t end) {
    uint64_t dirty = r->dirty[word] | r->ahead[word];
    dirty &= word == begin / 64 ? ~bits_below((unsigned)(begin % 64)) : UINT64_MAX;
    return dirty & bits_below((unsigned)min_size(end - word * 64, 64));
}

/* The first and the last superslab of begin..end-1 that has a resident slab; false if none has. */
static bool dirty_between(const struct region *r, size_t begin, size_t end, size_t *first, size_t *last) {
    bool any = false;
    for (size_t w = begin / 64; w * 64 < end; w++) {
        uint64_t dirty = dirty_word(r, w, begin, end);
        if (dirty != 0) {
            *first = any ? *first : w * 64 + bit_lowest(dirty);
            *last = w * 64 + bit_highest(dirty);
            any = true;
        }
    }
    return any;
}

static bool better(const struct huge_fit *run, const struct huge_fit *than, bool sparing) {
    if (sparing && run->uncommitted != than->uncommitted) {
        return run->uncommitted < than->uncommitted;
    }
    if (run->room != than->room) {
        return run->room > than->room;
    }
    return run->dirty != than->dirty ? run->dirty > than->dirty : run->length < than->length;
}

/* Makes `run`, in a free stretch that ends at `stretch_end`, the best so far if it is better. */
static void consider(const struct search *search, struct huge_fit run, size_t stretch_end,
                     struct huge_fit *best) {
    size_t end = run.first + search->superslabs;
    run.uncommitted = end - min_size(end, run.region->committed);
    run.room = min_size(stretch_end - run.first, search->room);
    if (best->region == NULL || better(&run, best, search->sparing)) {
        *best = run;
    }
}

/* Looks at every place for the run in the free superslabs begin..end-1; of those where nothing is resident
 * only at the first. */
static void fit_within(const struct search *search, struct region *r, size_t begin, size_t end,
                       struct huge_fit *best) {
    size_t superslabs = search->superslabs;
    size_t step = search->step;
    size_t lowest =
        (round_up(region_superslab_address(r, begin), step << SUPERSLAB_SHIFT) - r->base) >> SUPERSLAB_SHIFT;
    size_t first_dirty = 0;
    size_t last_dirty = 0;
    if (lowest + superslabs > end) {
        return;
    }
    bool any = dirty_between(r, lowest, end, &first_dirty, &last_dirty);
    if (!any || first_dirty >= lowest + superslabs) {
        consider(search, (struct huge_fit){.region = r, .first = lowest, .length = end - begin}, end, best);
    }
    if (!any) {
        return;
    }
    /* The first place that has a part of the first superslab with a resident slab, or one just before. */
    size_t skipped = first_dirty - min_size(first_dirty, lowest + superslabs - 1);
    size_t first = lowest + round_down(skipped, step);
    size_t dirty = 0;
    for (size_t s = first; s < end && s < first + superslabs; s++) {
        dirty += dirty_in(r, s);
    }
    for (; first + superslabs <= end && first <= last_dirty; first += step) {
        struct huge_fit run = {.region = r, .first = first, .length = end - begin, .dirty = dirty};
        consider(search, run, end, best);
        for (size_t k = first; k < first + step; k++) {
            dirty -= dirty_in(r, k);
            dirty += k + superslabs < end ? dirty_in(r, k + superslabs) : 0;
        }
    }
}

/* The first superslab of the free stretch that has superslab `s`. */
static size_t stretch_begin(const struct region *r, size_t s) {
    for (size_t w = s / 64 + 1; w-- > 0;) {
        uint64_t taken = ~free_word(r, w) & (w == s / 64 ? bits_below((unsigned)(s % 64)) : UINT64_MAX);
        if (taken != 0) {
            return w * 64 + bit_highest(taken) + 1;
        }
    }
    return 0;
}

/* The first superslab from `from` on that is wholly free and has a resident slab; r->superslabs if there is
 * none. */
static size_t next_dirty(const struct region *r, size_t from) {
    for (size_t w = from / 64; w * 64 < r->superslabs; w++) {
        uint64_t dirty = dirty_word(r, w, from, r->superslabs);
        dirty &= dirty != 0 ? free_word(r, w) : 0;
        if (dirty != 0) {
            return w * 64 + bit_lowest(dirty);
        }
    }
    return r->superslabs;
}

/* The best of the runs in all free stretches or, if `dirty`, in those of which something is resident. Ends
 * with the first of which none can be better. */
static void look_for_run(const struct search *search, bool dirty, struct huge_fit *best) {
    bool any_will_do = search->room == 0 && !search->sparing;
    size_t most = dirty ? search->superslabs * SLABS_PER_SUPERSLAB : 0;
    for (struct region *r = search->region; r != NULL; r = r->next) {
        for (size_t begin = 0, end = 0; begin < r->superslabs;) {
            begin = dirty ? next_dirty(r, end) : next_of(r, end, true);
            begin = dirty && begin < r->superslabs ? stretch_begin(r, begin) : begin;
            end = next_of(r, begin, false);
            fit_within(search, r, begin, end, best);
            if (any_will_do && best->region == r && best->length == search->superslabs &&
                best->dirty >= most) {
                return;
            }
        }
    }
}

/* The best of all free runs: see huge_fit.h. What is resident decides before lengths do. */
static bool find_run(const struct search *search, struct huge_fit *best) {
    best->region = NULL;
    best->dirty = 0;
    if (search->room == 0 && !search->sparing) {
        look_for_run(search, true, best);
    }
    if (best->dirty == 0) {
        best->region = NULL; /* of equals, one further down may be lower */
        look_for_run(search, false, best);
    }
    return best->region != NULL;
}

bool huge_fit_find(struct region *region, size_t superslabs, size_t alignment, size_t room,
                   struct huge_fit *best) {
    struct search search = {region, superslabs, max_size(alignment >> SUPERSLAB_SHIFT, 1), room, false};
    if (!find_run(&search, best)) {
        return false;
    }
    if (arena_commit(best->region, (uint32_t)(best->first + superslabs))) {
        return true;
    }
    search.sparing = true;
    return find_run(&search, best) && arena_commit(best->region, (uint32_t)(best->first + superslabs));
}
