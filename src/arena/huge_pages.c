#include "arena/huge_pages.h"

#include "arena/behind.h"
#include "arena/bound.h"
#include "arena/dense.h"
#include "arena/huge_price.h"
#include "arena/internal.h"
#include "arena/purge.h"
#include "arena/run.h"
#include "arena/testimony.h"
#include "options/options.h"
#include "os/os.h"

#include <stdatomic.h>

/* Blocks that may ask for huge pages at a time: each is two mappings of the kernel's more, of which a process
 * may have 65,530. */
#define ASKING_MOST 1000

/* What may be resident for nothing, of the huge page at the end of a block: so much at most, and this part of
 * the block at most. */
#define WASTE_MOST_BYTES (SUPERSLAB_BYTES / 4)
#define WASTE_PART 32
/* A block grows by steps if each is this part of it at most; so much of it may be resident for nothing at its
 * end. */
#define STEP_PART 8
/* A part of a block tells of all of it if it is this part of it at least. */
#define WATCHED_PART 4
/* Blocks that grow by steps and whose last superslab came ahead, at a time: 4 MiB. */
#define NEXT_AHEAD_MOST 2

/* Superslabs of a block that are tried, 8 MiB at most: they are resident then, whether the program comes to
 * them or not. */
#define TRIALS 4u

static _Atomic size_t asking; /* blocks that ask; relaxed everywhere: a limit that may be passed by a few */

/* Blocks whose last superslab came ahead, because they grow by steps. relaxed everywhere: as `asking` */
static _Atomic size_t next_ahead;

/* Whether the program may have asked for huge pages in a block of its own: where its madvise is not the
 * library's (api/advice.c), that is not known. relaxed everywhere: the program itself must see to it that the
 * block is freed after that call */
#ifdef HAKMEM_SHARED
static _Atomic bool program_asks;
#else
static _Atomic bool program_asks = true;
#endif

void huge_pages_note_program_asks(void) {
    atomic_store_explicit(&program_asks, true, memory_order_relaxed);
}

static void *superslab_of(struct slab *head, size_t superslab) {
    return (void *)(arena_address(head) + (superslab << SUPERSLAB_SHIFT));
}

static void forget_next(struct slab *head) {
    if (head->next_ahead) {
        head->next_ahead = false;
        atomic_fetch_sub_explicit(&next_ahead, 1, memory_order_relaxed);
    }
}

static void note_asking(struct slab *head) {
    if (!head->huge_pages) {
        head->huge_pages = true;
        atomic_fetch_add_explicit(&asking, 1, memory_order_relaxed);
    }
}

RARE void huge_pages_note_asked(struct slab *head) {
    lock_acquire(&arena.lock); /* several threads may ask, each for its part */
    note_asking(head);
    lock_release(&arena.lock);
}

/* Asks the kernel for huge pages in superslabs first..end-1 of the run, unless too many blocks do. */
static void ask(struct slab *head, size_t first, size_t end) {
    if (first >= end ||
        (!head->huge_pages && atomic_load_explicit(&asking, memory_order_relaxed) >= ASKING_MOST)) {
        return;
    }
    if (os_ask_for_huge_pages(superslab_of(head, first), (end - first) << SUPERSLAB_SHIFT, true)) {
        note_asking(head);
    }
}

static void ask_not(struct slab *head, size_t first, size_t end) {
    if (first < end) {
        os_ask_for_huge_pages(superslab_of(head, first), (end - first) << SUPERSLAB_SHIFT, false);
    }
}

/* The block asks no more in the superslabs from `first` on, and others may come to lie there. */
static void ask_no_more(struct slab *head, size_t first) {
    if (head->huge_pages || atomic_load_explicit(&program_asks, memory_order_relaxed)) {
        ask_not(head, first, arena_run_slabs(head) / SLABS_PER_SUPERSLAB);
    }
}

/* A block of the large lane, whose run is a part of a superslab from here on or free, may leave a huge page
 * behind. (Of a huge run, the arena sees to that.) */
static void leave_huge_page(const struct slab *head) {
    if (head->huge_pages && !arena_run_is_huge(head)) {
        struct region *r = region_of((uintptr_t)head);
        lock_acquire(&arena.lock);
        dense_note_huge(r, region_slab_number(r, head) / SLABS_PER_SUPERSLAB, 1);
        lock_release(&arena.lock);
    }
}

static size_t skip(size_t superslabs) {
    lock_acquire(&arena.lock);
    size_t skipped = huge_price_skip(superslabs);
    lock_release(&arena.lock);
    return skipped;
}

static bool skips_all(size_t superslabs) {
    lock_acquire(&arena.lock);
    bool all = huge_price_skips_all(superslabs);
    lock_release(&arena.lock);
    return all;
}

enum trial { TRIAL_QUICK, TRIAL_SLOW, TRIAL_TELLS_NOTHING };

/* Takes a huge page that the program would take soon, by a touch, and has its price noted. */
static enum trial try_one(struct slab *head, size_t superslab) {
    char *start = superslab_of(head, superslab);
    if (os_may_be_resident(start)) {
        return TRIAL_TELLS_NOTHING;
    }
    lock_acquire(&arena.lock);
    uint32_t turn = huge_price_turn();
    lock_release(&arena.lock);
    uint64_t ns = os_touch(start);
    if (!os_may_be_resident(start + SUPERSLAB_BYTES - OS_PAGE_BYTES)) {
        return TRIAL_TELLS_NOTHING; /* a small one has come */
    }
    lock_acquire(&arena.lock);
    bool quick = huge_price_note(turn, true, ns);
    lock_release(&arena.lock);
    return quick ? TRIAL_QUICK : TRIAL_SLOW;
}

/* Of superslabs first..end-1, which huge pages have been asked for, tries `trials`, further and further from
 * each other. Behind one that was slow some get small pages, and all of them if it was the last to be tried.
 * Returns whether the last superslab may come as a huge page. */
static bool try_some(struct slab *head, size_t first, size_t end, unsigned trials) {
    size_t step = 1;
    for (size_t s = first; s < end && trials > 0; trials--) {
        enum trial trial = try_one(head, s);
        size_t skipped = 0;
        if (trial == TRIAL_SLOW) {
            skipped = trials == 1 ? end - s - 1 : skip(end - s - 1);
        }
        if (skipped > 0) {
            ask_not(head, s + 1, s + 1 + skipped);
            if (s + 1 + skipped == end) {
                return false;
            }
        }
        s += skipped + (trial == TRIAL_QUICK ? step : 1);
        step *= trial == TRIAL_QUICK ? 2 : 1;
    }
    return true;
}

/* Bytes from the start of a block on that are to come as huge pages; none of a large one. */
static size_t huge_end(const struct slab *head, size_t bytes) {
    if (!arena_run_is_huge(head)) {
        return 0;
    }
    size_t whole = round_up(bytes, SUPERSLAB_BYTES);
    bool wastes_little = whole - bytes <= min_size(bytes / WASTE_PART, WASTE_MOST_BYTES);
    return wastes_little ? whole : whole - SUPERSLAB_BYTES;
}

/* Purges those of superslabs first..end-1 that `sparse` names: the few small pages that are resident there
 * would keep the superslab from being one huge page. */
static void purge_sparse(struct slab *head, uint64_t sparse, size_t first, size_t end) {
    for (; sparse != 0; sparse &= sparse - 1) {
        if (bit_lowest(sparse) >= first && bit_lowest(sparse) < end) {
            struct iovec superslab = {superslab_of(head, bit_lowest(sparse)), SUPERSLAB_BYTES};
            bool done; /* it is not worth a second attempt */
            arena_purge_holes(&superslab, 1, &done);
        }
    }
}

/* Gets pages for a block that the program will fill, before it does: huge ones up to `whole`, small ones
 * behind that. */
static void get_ahead(struct slab *head, size_t bytes, size_t whole, uint64_t sparse) {
    size_t end = whole >> SUPERSLAB_SHIFT;
    size_t first = end > 0 ? skip(end) : 0;
    ask(head, first, end);
    if (head->huge_pages) {
        if (whole > bytes) {
            behind_give_up(head);
        }
        purge_sparse(head, sparse, first, end);
        if (try_some(head, first, end, TRIALS) && whole > bytes) {
            head->tail_dirty = true;
        }
    }
    if (whole < bytes) {
        os_populate((void *)(arena_address(head) + whole), bytes - whole);
    }
}

/* Has the watched part of the block tell of blocks of `bytes`, if it is large enough for that. */
static void watch_what_is_left(struct slab *head, size_t bytes) {
    head->watched = head->watched_bytes >= bytes / WATCHED_PART && head->watched_bytes >= SLAB_BYTES;
    if (head->watched) {
        testimony_watch(bytes, head->watched_start, head->watched_bytes);
    }
}

/* Has a part of the block tell whether the program fills it: as much as was not resident, in one piece. */
static void watch(struct slab *head, size_t bytes, struct zeros zeros) {
    head->watched_start = arena_address(head) + zeros.begin;
    head->watched_bytes = min_size(zeros.end, bytes) - zeros.begin;
    watch_what_is_left(head, bytes);
}

void huge_pages_taken(struct slab *head, size_t bytes, struct huge_pages_found found) {
    head->huge_pages = head->ahead = head->next_ahead = head->watched = head->cleared = false;
    if (!option_bool(OPTION_HUGE_PAGES) || bytes < SLAB_BYTES || !found.worth_asking || arena_is_scarce()) {
        return;
    }
    size_t whole = huge_end(head, bytes);
    size_t superslabs = whole >> SUPERSLAB_SHIFT;
    if (superslabs > 0 && !found.filled && skips_all(superslabs)) {
        if (testimony_expects_filled(bytes)) {
            (void)skip(superslabs);
        }
    } else {
        head->ahead = testimony_says_filled(arena_address(head), bytes);
    }
    watch(head, bytes, found.zeros);
    if (head->ahead && !found.filled) {
        get_ahead(head, bytes, whole, found.sparse);
    }
}

/* The block tells nothing any more. */
static void watch_no_more(struct slab *head) {
    if (head->watched) {
        testimony_forget(head->watched_start);
        head->watched = false;
    }
}

/* The block does not bear out any more the testimony that it got its pages by. */
static void bear_out_no_more(const struct slab *head) {
    if (head->ahead) {
        testimony_forget(arena_address(head));
    }
}

/* The block keeps its first `bytes` only. What is left of the part that tells of a huge block tells of blocks
 * as long as it was; a large one tells nothing any more. */
static void watch_less(struct slab *head, size_t bytes) {
    size_t begin = head->watched_start - arena_address(head);
    if (begin + head->watched_bytes > bytes) {
        watch_no_more(head); /* the rest is soon another block's */
        if (arena_run_is_huge(head) && begin < bytes) {
            head->watched_bytes = bytes - begin;
            watch_what_is_left(head, arena_span(head));
        }
    }
}

void huge_pages_shortened(struct slab *head, size_t bytes) {
    forget_next(head);
    ask_no_more(head, bytes >> SUPERSLAB_SHIFT);
    leave_huge_page(head);
    if (head->watched) {
        watch_less(head, bytes);
    }
    if (round_up(bytes, SUPERSLAB_BYTES) < arena_run_slabs(head) << SLAB_SHIFT) {
        bear_out_no_more(head);
    }
}

void huge_pages_given(struct slab *head, bool resident) {
    if (head->watched && resident) {
        testimony_of_freed(arena_span(head), head->watched_start, head->watched_bytes, head->ahead);
        head->watched = false;
    }
    watch_no_more(head);
    bear_out_no_more(head);
    forget_next(head);
    if (resident) { /* where the pages are not there, others are mapped */
        ask_no_more(head, 0);
        leave_huge_page(head);
    }
    if (head->huge_pages) {
        atomic_fetch_sub_explicit(&asking, 1, memory_order_relaxed);
    }
    head->huge_pages = false;
}

/* Whether a block that has grown from `had` to `bytes` grows by small steps, and has filled what it got last:
 * it will grow further, and the superslab that it comes to is its next one. */
static bool grows_by_steps(const struct slab *head, size_t had, size_t bytes) {
    size_t behind = round_up(bytes, SUPERSLAB_BYTES) - bytes;
    return bytes > had && bytes - had <= had / STEP_PART && had >= SUPERSLAB_BYTES &&
           behind <= bytes / STEP_PART && round_up(had, SUPERSLAB_BYTES) < bytes &&
           atomic_load_explicit(&next_ahead, memory_order_relaxed) < NEXT_AHEAD_MOST &&
           testimony_is_written_throughout(arena_address(head), had) &&
           testimony_is_written_throughout(arena_address(head) + had - SUPERSLAB_BYTES, SUPERSLAB_BYTES);
}

void huge_pages_grown(struct slab *head, size_t had, size_t bytes) {
    if (round_up(had, SUPERSLAB_BYTES) < bytes) {
        forget_next(head);
    }
    if (!option_bool(OPTION_HUGE_PAGES)) {
        return;
    }
    bool by_steps = grows_by_steps(head, had, bytes);
    size_t first = (by_steps ? round_up(had, SUPERSLAB_BYTES) : had) >> SUPERSLAB_SHIFT;
    size_t whole = by_steps ? round_up(bytes, SUPERSLAB_BYTES) : round_down(bytes, SUPERSLAB_BYTES);
    size_t end = whole >> SUPERSLAB_SHIFT;
    if (first < end && first > 0 && bytes <= 2 * had && !arena_is_scarce() &&
        testimony_is_filled(arena_address(head), had, head->ahead)) {
        size_t from = first + skip(end - first);
        ask(head, from, end);
        /* The superslab that the program comes to next. */
        size_t next = max_size(from, round_up(had, SUPERSLAB_BYTES) >> SUPERSLAB_SHIFT);
        bool last = from < end && head->huge_pages && try_some(head, next, end, 1);
        if (by_steps && last && whole > bytes) {
            behind_give_up(head);
            head->tail_dirty = head->next_ahead = true;
            atomic_fetch_add_explicit(&next_ahead, 1, memory_order_relaxed);
        }
    }
}

void huge_pages_moved(struct slab *from, struct slab *to) {
    forget_next(from);
    if (from->huge_pages) {
        note_asking(to);
    }
    to->ahead = to->ahead || from->ahead || from->huge_pages;
    watch_no_more(to);
}
