#include "arena/huge_pages.h"

#include "arena/arena.h"
#include "arena/behind.h"
#include "arena/bound.h"
#include "arena/huge_price.h"
#include "arena/internal.h"
#include "arena/testimony.h"
#include "options/options.h"
#include "os/os.h"

#include <stdatomic.h>

/* Each block that asks is two mappings of the kernel's more, of which a process may have 65,530. */
#define ASKING_MOST 1000

/* What of a huge page may be resident for nothing at the end of a block, and that as a part of the block. */
#define WASTE_MOST_BYTES (SUPERSLAB_BYTES / 4)
#define WASTE_PART 32
/* The same of a block that grows by such a part of it at most. */
#define STEP_PART 8
/* What of a block has to be left to tell of it. */
#define WATCHED_PART 4
/* And blocks that have such an end at a time: 4 MiB. */
#define NEXT_AHEAD_MOST 2

/* Of so many superslabs of a block, the first is tried: 16 MiB. */
#define TRIED_OF 8

static _Atomic size_t asking; /* relaxed: a limit that may be passed by a few */

static _Atomic size_t next_ahead; /* relaxed: likewise */

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

static void ask(struct slab *head, size_t first, size_t end) {
    if (first >= end ||
        (!head->huge_pages && atomic_load_explicit(&asking, memory_order_relaxed) >= ASKING_MOST)) {
        return;
    }
    if (os_ask_for_huge_pages(superslab_of(head, first), (end - first) << SUPERSLAB_SHIFT, true)) {
        note_asking(head);
    }
}

static void ask_no_more(struct slab *head, size_t first) {
    size_t superslabs = arena_run_slabs(head) / SLABS_PER_SUPERSLAB;
    os_ask_for_huge_pages(superslab_of(head, first), (superslabs - first) << SUPERSLAB_SHIFT, false);
}

static bool are_quick(size_t superslabs) {
    lock_acquire(&arena.lock);
    bool quick = huge_price_allows(superslabs);
    lock_release(&arena.lock);
    return quick;
}

static bool is_quick(uint64_t ns) {
    lock_acquire(&arena.lock);
    bool quick = huge_price_note(true, ns);
    lock_release(&arena.lock);
    return quick;
}

/* Of those that have been asked for, takes a few now, which the program would take soon, to see how long that
 * takes: if too long, it gets small pages from there on. */
static void try_some(struct slab *head, size_t first, size_t end) {
    bool quick = true;
    for (size_t s = first; head->huge_pages && quick && s < end; s += TRIED_OF) {
        unsigned char resident = 1; /* nor is anything learned where the kernel does not say */
        if (os_which_resident(superslab_of(head, s), 1, &resident) && resident == 0) {
            quick = is_quick(os_touch(superslab_of(head, s)));
        }
    }
    if (!quick) {
        ask_no_more(head, first);
    }
}

/* Where the huge pages of a block end. */
static size_t huge_end(const struct slab *head, size_t bytes) {
    if (!arena_run_is_huge(head)) {
        return 0;
    }
    size_t whole = round_up(bytes, SUPERSLAB_BYTES);
    bool wastes_little = whole - bytes <= min_size(bytes / WASTE_PART, WASTE_MOST_BYTES);
    return wastes_little ? whole : whole - SUPERSLAB_BYTES;
}

/* A few small pages would keep a superslab from being one huge page. */
static void purge_sparse(struct slab *head, uint64_t sparse, size_t superslabs) {
    for (; sparse != 0; sparse &= sparse - 1) {
        if (bit_lowest(sparse) < superslabs) {
            struct iovec superslab = {superslab_of(head, bit_lowest(sparse)), SUPERSLAB_BYTES};
            bool done; /* it is not worth a second attempt */
            arena_purge_holes(&superslab, 1, &done);
        }
    }
}

/* The program will fill the block. */
static void get_ahead(struct slab *head, size_t bytes, uint64_t sparse) {
    size_t whole = huge_end(head, bytes);
    ask(head, 0, whole >> SUPERSLAB_SHIFT);
    if (head->huge_pages) {
        if (whole > bytes) {
            behind_give_up(head);
            head->tail_dirty = true;
        }
        purge_sparse(head, sparse, whole >> SUPERSLAB_SHIFT);
        try_some(head, 0, whole >> SUPERSLAB_SHIFT);
    }
    if (whole < bytes) {
        os_populate((void *)(arena_address(head) + whole), bytes - whole);
    }
}

/* Where it is enough to tell of a block of `bytes`. */
static void watch_what_is_left(struct slab *head, size_t bytes) {
    head->watched = head->watched_bytes >= bytes / WATCHED_PART && head->watched_bytes >= SLAB_BYTES &&
                    testimony_watch(bytes, head->watched_start, head->watched_bytes);
}

/* What of a block tells whether the program fills it: as much of it as was not resident, in one piece. */
static void watch(struct slab *head, size_t bytes, struct zeros zeros) {
    head->watched_start = arena_address(head) + zeros.begin;
    head->watched_bytes = min_size(zeros.end, bytes) - zeros.begin;
    watch_what_is_left(head, bytes);
}

void huge_pages_taken(struct slab *head, size_t bytes, struct huge_pages_found found) {
    head->huge_pages = head->ahead = head->next_ahead = head->watched = false;
    if (!option_bool(OPTION_HUGE_PAGES) || bytes < SLAB_BYTES || !found.worth_asking || arena_is_scarce()) {
        return;
    }
    size_t superslabs = huge_end(head, bytes) >> SUPERSLAB_SHIFT;
    head->ahead = testimony_says_filled(arena_address(head), bytes) &&
                  (found.filled || superslabs == 0 || are_quick(superslabs));
    watch(head, bytes, found.zeros);
    if (head->ahead && !found.filled) {
        get_ahead(head, bytes, found.sparse);
    }
}

static void watch_no_more(struct slab *head) {
    if (head->watched) {
        testimony_forget(head->watched_start);
        head->watched = false;
    }
}

/* Nor does it bear out what a testimony has said of it. */
static void bear_out_no_more(const struct slab *head) {
    if (head->ahead && arena_run_is_huge(head)) {
        testimony_forget(arena_address(head));
    }
}

/* Less is left of what tells of a huge block, and tells of those that are as long as it was. */
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
    if (head->huge_pages) {
        ask_no_more(head, bytes >> SUPERSLAB_SHIFT);
    }
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
    if (head->huge_pages) {
        ask_no_more(head, 0);
        atomic_fetch_sub_explicit(&asking, 1, memory_order_relaxed);
    }
    head->huge_pages = false;
}

/* What grows by small steps, and has filled what it got last, will grow further: the superslab that it comes
 * to is its next one. */
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
    bool by_steps = grows_by_steps(head, had, bytes);
    size_t first = (by_steps ? round_up(had, SUPERSLAB_BYTES) : had) >> SUPERSLAB_SHIFT;
    size_t whole = by_steps ? round_up(bytes, SUPERSLAB_BYTES) : round_down(bytes, SUPERSLAB_BYTES);
    size_t end = whole >> SUPERSLAB_SHIFT;
    if (first < end && first > 0 && bytes <= 2 * had && !arena_is_scarce() &&
        testimony_is_filled(arena_address(head), had, head->ahead) && are_quick(end - first)) {
        ask(head, first, end);
        try_some(head, round_up(had, SUPERSLAB_BYTES) >> SUPERSLAB_SHIFT, end);
        if (by_steps && head->huge_pages && whole > bytes) {
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
