#include "arena/address_space.h"
#include "arena/arena.h"
#include "arena/behind.h"
#include "arena/bound.h"
#include "arena/dense.h"
#include "arena/huge_fit.h"
#include "arena/huge_pages.h"
#include "arena/internal.h"
#include "arena/stray.h"
#include "arena/waiting.h"
#include "os/os.h"
#include "os/report.h"

/* From here on the kernel is asked first whether the machine could have so much: what is known of each
 * superslab takes memory, a gigabyte of it for 60 TiB. */
#define ASKED_FOR_BYTES ((size_t)16 << 30)

/* With each block that begins to grow, so much less is known of how long others became. */
#define FORGOTTEN_PART 8

/* A superslab of which no more slabs than this are resident may come anew as a huge page. */
#define SPARSE_SLABS 8

/* Looks for the run in a new region of at least `with_slack` superslabs. One that is of no use for it must
 * not stay: each failure would leave one more, and what its metadata takes is not there for blocks. */
static bool fits_in_new(size_t superslabs, size_t alignment, size_t with_slack, struct huge_fit *best) {
    struct region *r = arena_add_region(with_slack, with_slack > region_shared_superslabs());
    bool fits = r != NULL && huge_fit_find(r, superslabs, alignment, 0, best);
    if (r != NULL && !fits) {
        arena_end_region(r);
    }
    return fits;
}

static size_t superslabs_of(size_t bytes) {
    return round_up(bytes, SUPERSLAB_BYTES) >> SUPERSLAB_SHIFT;
}

/* A mask of the slabs that a block of `bytes` has in the last superslab of its run. */
static uint32_t slabs_in_last(size_t bytes) {
    size_t rest = (bytes - 1) % SUPERSLAB_BYTES + 1;
    return bits32_below((unsigned)(round_up(rest, SLAB_BYTES) >> SLAB_SHIFT));
}

/* Takes `count` free superslabs from `first` on as the end of the run of a block of `bytes`; returns what of
 * them may be resident. What is behind the block stays as it is. */
static struct huge_pages_found claim_superslabs(struct slab *head, struct region *r, size_t first,
                                                size_t count, size_t bytes) {
    struct huge_pages_found found = {.worth_asking = false};
    uint32_t behind = ~slabs_in_last(bytes);
    size_t dirty = 0;
    size_t clean = 0; /* bytes in a row, up to this superslab's end */
    for (size_t i = 0; i < count; i++) {
        size_t s = first + i;
        uint32_t others = i + 1 == count ? behind : 0;
        unsigned here = bit_count(r->states[s].dirty & ~others);
        dirty += here;
        bool sparse = here <= SPARSE_SLABS && i < 64;
        clean = here == 0 ? clean + SUPERSLAB_BYTES : 0;
        if (clean > found.zeros.end - found.zeros.begin) {
            found.zeros.end = (i + 1) << SUPERSLAB_SHIFT;
            found.zeros.begin = found.zeros.end - clean;
        }
        found.sparse |= (uint64_t)(sparse && here > 0) << i % 64;
        found.worth_asking = found.worth_asking || ((sparse || here == 0) && i < bytes >> SUPERSLAB_SHIFT);
        dense_note_ahead(&r->states[s], 0);
        retention_note_taken(&arena.retention, &r->states[s].missed, ~others, GRACE_FOR_EACH);
        r->states[s].free = 0;
        behind_keep(&r->states[s], others);
        region_note(r, s);
    }
    head->tail_dirty = false;
    arena.superslabs_opened += count;
    arena_note_taken(dirty, count * SLABS_PER_SUPERSLAB - bit_count(behind) - dirty);
    return found;
}

/* Not where the program locks its memory: what asks would be locked, too, as long as that takes. */
COLD static bool may_have(size_t bytes) {
    lock_acquire(&arena.lock);
    bool locks = arena.locked_in_new;
    lock_release(&arena.lock);
    return locks || os_could_commit(bytes);
}

/* Superslabs that a block of so many should have room for, because it grows: twice as many, and as many as
 * others of late. */
static size_t room_to_grow(size_t superslabs) {
    size_t room = max_size(arena.grown_superslabs, 2 * superslabs);
    arena.grown_superslabs -= (arena.grown_superslabs + FORGOTTEN_PART - 1) / FORGOTTEN_PART;
    arena.grown_superslabs = max_size(arena.grown_superslabs, superslabs);
    return room;
}

struct slab *arena_take_huge(size_t bytes, size_t alignment, bool grows, struct zeros *zeros) {
    size_t superslabs = superslabs_of(bytes);
    size_t with_slack = superslabs + (alignment > SUPERSLAB_BYTES ? alignment >> SUPERSLAB_SHIFT : 0);
    struct slab *slab = NULL;
    struct huge_fit place;
    struct huge_pages_found found = {0};
    if (superslabs > (size_t)1 << (ADDRESS_BITS - SUPERSLAB_SHIFT) ||
        with_slack > (size_t)1 << (ADDRESS_BITS - SUPERSLAB_SHIFT) ||
        (UNLIKELY(with_slack >= ASKED_FOR_BYTES >> SUPERSLAB_SHIFT) &&
         !may_have(with_slack << SUPERSLAB_SHIFT))) {
        return NULL;
    }
    lock_acquire(&arena.lock);
    size_t room = grows ? room_to_grow(superslabs) : 0;
    bool fits = huge_fit_find(arena.oldest, superslabs, alignment, room, &place) ||
                fits_in_new(superslabs, alignment, with_slack, &place);
    if (!fits) {
        arena_wait_for_purge(); /* as in arena_take */
        fits = huge_fit_find(arena.oldest, superslabs, alignment, room, &place) ||
               (arena_end_idle_regions() && fits_in_new(superslabs, alignment, with_slack, &place));
    }
    if (fits) {
        slab = region_slab(place.region, place.first * SLABS_PER_SUPERSLAB);
        found = claim_superslabs(slab, place.region, place.first, superslabs, bytes);
        *zeros = found.zeros;
        slab->run_slabs = 0;
        slab->moved = false;
        /* relaxed: as in arena_take */
        atomic_store_explicit(&slab->span_bytes, superslabs << SUPERSLAB_SHIFT, memory_order_relaxed);
        atomic_store_explicit(&slab->state, SLAB_LARGE, memory_order_relaxed);
    }
    if (UNLIKELY(arena.memory_locked)) { /* what was made usable behind the block is resident, too */
        arena_unlock_within_bound();
    } else {
        lock_release(&arena.lock);
    }
    if (fits) {
        huge_pages_taken(slab, bytes, found);
    }
    return slab;
}

/* Frees `count` superslabs from `first` on, the last ones of the run of a block of `bytes`; what the block
 * had of them is dirty if it is `resident`. */
static void free_superslabs(const struct slab *head, struct region *r, size_t first, size_t count,
                            size_t bytes, bool resident) {
    size_t slabs = count * SLABS_PER_SUPERSLAB - bit_count(~slabs_in_last(bytes));
    arena_free_slabs(r, first * SLABS_PER_SUPERSLAB, slabs, resident ? slabs : 0);
    behind_free(r, first + count - 1, resident, head->tail_dirty);
}

/* The superslabs of a run: `count` from `first` on. */
struct extent {
    struct region *region;
    size_t first, count;
};

static struct extent extent_of(const struct slab *head) {
    struct region *r = region_of((uintptr_t)head);
    size_t first = region_slab_number(r, head) / SLABS_PER_SUPERSLAB;
    return (struct extent){r, first, arena_run_slabs(head) / SLABS_PER_SUPERSLAB};
}

void arena_give_huge(struct slab *head, bool resident) {
    struct extent run = extent_of(head);
    struct region *r = run.region;
    size_t bytes = arena_span(head);
    bool huge_pages = head->huge_pages;
    huge_pages_given(head, resident);
    /* New pages where old ones were moved from or, if the program can wait for them, to: the kernel keeps
     * areas apart there that belong together, and what the program may have done to its pages stays with
     * them. */
    bool renewed = false;
    if (!resident || (head->moved && !retention_keeps_all())) {
        behind_give_up(head); /* what is lost must not be purged */
        void *start = (void *)region_superslab_address(r, run.first);
        renewed = os_renew(start, run.count << SUPERSLAB_SHIFT);
        if (renewed) {
            os_ask_for_huge_pages(start, run.count << SUPERSLAB_SHIFT, false);
        } else if (!os_commit(start, run.count << SUPERSLAB_SHIFT)) {
            report_fallback(FALLBACK_RUN_LOST, run.count << SUPERSLAB_SHIFT);
            return; /* its addresses may be another mapping's by now: it stays taken */
        }
    }
    lock_acquire(&arena.lock);
    if (renewed) {
        resident = arena.locked_in_new; /* then the kernel has put memory behind the new pages at once */
        head->tail_dirty = resident;
        huge_pages = false;
    }
    /* What is being purged is not free, and the region would not end with its block. */
    if (UNLIKELY(r->only_huge)) {
        behind_wait(&r->states[run.first + run.count - 1], UINT32_MAX);
    }
    atomic_store_explicit(&head->state, SLAB_FREE, memory_order_relaxed); /* as in arena_take */
    if (huge_pages && resident) {
        dense_note_huge(r, run.first, run.count);
    }
    free_superslabs(head, r, run.first, run.count, bytes, resident);
    if (r->only_huge && arena_region_idle(r)) {
        stray_note_ended(region_superslab_address(r, run.first));
        arena_end_resident_region(r);
    }
    arena_unlock_within_bound();
}

static void shorten(struct slab *head, size_t bytes) {
    struct extent had = extent_of(head);
    size_t had_bytes = arena_span(head);
    size_t count = superslabs_of(bytes);
    size_t whole = bytes >> SUPERSLAB_SHIFT;
    /* The block's slabs so far in the superslab that it will end in. */
    uint32_t had_slabs = count < had.count ? UINT32_MAX : slabs_in_last(had_bytes);
    huge_pages_shortened(head, bytes);
    lock_acquire(&arena.lock);
    if (head->huge_pages) {
        dense_note_huge(had.region, had.first + whole, had.count - whole);
    }
    if (count < had.count) {
        free_superslabs(head, had.region, had.first + count, had.count - count, had_bytes, true);
        head->tail_dirty = false;
    }
    behind_leave(had.region, had.first + count - 1, had_slabs & ~slabs_in_last(bytes));
    arena_set_span(head, bytes);
    arena_unlock_within_bound();
}

static bool lengthen(struct slab *head, size_t bytes) {
    struct extent had = extent_of(head);
    struct region *r = had.region;
    size_t had_bytes = arena_span(head);
    size_t end = had.first + had.count;
    size_t wanted_end = had.first + superslabs_of(bytes);
    /* The block's slabs to be in the superslab that it ends in so far. */
    uint32_t wanted_slabs = wanted_end > end ? UINT32_MAX : slabs_in_last(bytes);
    lock_acquire(&arena.lock);
    behind_wait(&r->states[end - 1], wanted_slabs);
    bool done = wanted_end <= r->superslabs;
    for (size_t s = end; done && s < wanted_end; s++) {
        done = huge_fit_is_free(r, s);
    }
    done = done && (wanted_end <= end || arena_commit(r, (uint32_t)wanted_end));
    if (done) {
        behind_take(r, end - 1, r->states[end - 1].behind & wanted_slabs);
        if (wanted_end > end) {
            claim_superslabs(head, r, end, wanted_end - end, bytes);
            arena.grown_superslabs = max_size(arena.grown_superslabs, wanted_end - had.first);
        }
        arena_set_span(head, bytes);
    }
    arena_unlock_within_bound();
    if (done) {
        huge_pages_grown(head, had_bytes, bytes);
    }
    return done;
}

bool arena_resize_huge(struct slab *head, size_t bytes) {
    if (round_up(bytes, SLAB_BYTES) < round_up(arena_span(head), SLAB_BYTES)) {
        shorten(head, bytes);
        return true;
    }
    return lengthen(head, bytes);
}
