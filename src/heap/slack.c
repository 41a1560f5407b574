#include "heap/slack.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "heap/holes.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"

/* Work in one look: some 0.3 ms. */
#define UNITS_AT_A_LOOK 3000

/* What one relief may take, in portions of that. */
#define RELIEF_NS 2000000
/* Reliefs of which this part was taken again are not worth it, and so many of them are left out then. */
#define MISTAKEN_PART 2
#define PATIENCE_MOST 8u
/* How much of free blocks' memory is resident is seen from so many pages of late. */
#define SEEN_PAGES ((size_t)256)
/* It is taken to be this part at least, and how much it is, is looked at by the way. */
#define RESIDENT_PART 4
#define UNITS_OF_A_MEASUREMENT 300
/* And as much may be free in addition at most, times RETAIN_MIN: what was seen may be of other sizes. */
#define HOLLOW_MORE 3
#define LOOKS_OF_A_MEASUREMENT 16

/* What a thread caches may be this part of what is held while more is free than may be: of a program that
 * holds little more, it is what keeps the pages. */
#define CACHED_PART 16
/* And for so many looks they stay small, or what a program frees last would be in them: 16 MiB. */
#define LEAN_LOOKS 64

/* A round that finds less than this part of what is over the bound was not worth it: after it more may be
 * free until the next, up to so many times as much. */
#define WORTHLESS_PART 8
#define CAUTION_MOST 4u
/* A look that finds this part of it was. */
#define WORTHWHILE_PART 2

#define MORE_PART 2
/* So many times the grace may be free as long as that is no more than what the program holds: one that hands
 * blocks on from thread to thread purges most of what it has before it has learned the grace. */
#define GRACE_TIMES 4
/* After so many periods without a mistake nothing is left of it. */
#define GRACE_HALVED_MOST 40
/* Purged in addition to what is over the bound. */
#define PURGED_PART 16

_Atomic int64_t slack_purged;

int64_t slack_resident(void) {
    return arena_slack() - atomic_load_explicit(&slack_purged, memory_order_relaxed);
}

static struct lock lock;      /* of what follows; nothing else is done while it is held */
static int64_t low;           /* resident slack: the least since a search found no more */
static unsigned caution = 1;  /* 2 and more after searches that were not worth it */
static size_t purged, grace;  /* in this period and not taken again; what may be free in addition */
static uint64_t taken_before; /* of holes_taken_again */
static uint64_t period_ms;    /* when it began */
static bool was_mistaken;     /* in this period */
static uint64_t purged_ever;
static size_t seen = SEEN_PAGES, seen_resident = SEEN_PAGES;

void slack_lock_lost_by_fork(void) {
    lock_end_fork(&lock, true);
}

/* Half of what was purged and taken again in the same period counts: what a program breathes may stay after a
 * few breaths, and where a phase has ended for good, little too much does. */
static void note_mistakes(void) {
    uint64_t taken = holes_taken_again();
    size_t mistaken = min_size((size_t)(taken - taken_before), purged);
    taken_before = taken;
    purged -= mistaken;
    grace = min_size(grace + mistaken / 2, option_number(OPTION_RETAIN_GRACE));
    was_mistaken = was_mistaken || mistaken > 0;
    uint64_t now = os_now_ms();
    uint64_t periods = (now - period_ms) / decay_period_ms();
    if (periods > 0) {
        period_ms = now;
        grace >>= min_size(was_mistaken ? periods - 1 : periods, GRACE_HALVED_MOST);
        purged = 0;
        was_mistaken = false;
    }
}

/* What may be free above the least: as much as elsewhere (retention.h), and in small programs half as much
 * again, because a free block in a slab is sooner wanted than a whole slab. */
int64_t slack_allowed(void) {
    size_t least = option_number(OPTION_RETAIN_MIN);
    return (int64_t)max_size(arena_share_bytes(), arena_is_scarce() ? 0 : least + least / MORE_PART);
}

/* No more than was learned where the library's thread is not there: a program that has come to free no more
 * would keep it for good. */
static int64_t grace_now(void) {
    if (arena_is_scarce()) {
        return 0;
    }
    size_t most = decay_is_on() ? min_size(arena_held_bytes(), option_number(OPTION_RETAIN_GRACE)) : 0;
    return (int64_t)max_size(grace, min_size(grace * GRACE_TIMES, most));
}

static int64_t bound_if_resident(void) {
    return slack_allowed() * caution + grace_now();
}

/* A program that writes to a page of each buffer has as much more that is free. */
static int64_t bound(void) {
    size_t resident = max_size(seen_resident, seen / RESIDENT_PART);
    int64_t most = bound_if_resident();
    int64_t more = most * (int64_t)seen / (int64_t)resident - most;
    int64_t more_most = arena_is_scarce() ? 0 : (int64_t)(HOLLOW_MORE * option_number(OPTION_RETAIN_MIN));
    return most + (more < more_most ? more : more_most);
}

static void note_seen(const struct holes_found *found) {
    seen += found->pages;
    seen_resident += found->resident;
    if (seen > 2 * SEEN_PAGES) {
        seen_resident = seen_resident * SEEN_PAGES / seen;
        seen = SEEN_PAGES;
    }
}

/* What is over the bound and a part of that, so that the next look does not find so again. */
static size_t excess(void) {
    int64_t now = slack_resident();
    int64_t most = bound();
    low = now < low ? now : low;
    return now - low > most ? (size_t)(now - low - most + most / PURGED_PART) : 0;
}

/* A round has ended, and more is free than may be. Where little was found, by all threads together, the rest
 * shares pages with blocks in use. */
static void note_end_of_round(const struct search *search, size_t over) {
    if (purged_ever - search->purged >= over / WORTHLESS_PART) {
        caution = 1;
    } else {
        caution = (unsigned)min_size((size_t)caution * 2, CAUTION_MOST);
        low = slack_resident();
    }
}

/* Of what counts no more, so much does again. */
static void count_again(size_t bytes) {
    low -= (int64_t)min_size(bytes, low > 0 ? (size_t)low : 0);
}

struct found {
    size_t bytes;
    bool more; /* may be found */
};

/* More is free than could be if all of that were resident. */
static bool is_worth_measuring(void) {
    static unsigned looks;
    return slack_resident() - low > bound_if_resident() && holes_may_ask() &&
           looks++ % LOOKS_OF_A_MEASUREMENT == 0;
}

static void begin_if_over(struct search *search, uint32_t first, uint64_t purged_before) {
    if (holes_round_is_over(search)) {
        holes_begin_round(search, first);
        search->purged = purged_before;
    }
}

static void measure(struct search *search, uint32_t first) {
    begin_if_over(search, first, 0);
    struct holes_found found = holes_measure_some(search, UNITS_OF_A_MEASUREMENT);
    lock_acquire(&lock);
    note_seen(&found);
    lock_release(&lock);
}

/* Begins a new round behind heap `first` if the last is over; first of all, so much counts again. */
static struct found look(struct search *search, struct search *measured, uint32_t first, size_t again) {
    lock_acquire(&lock);
    note_mistakes();
    count_again(again);
    size_t wanted = excess();
    bool measures = wanted == 0 && is_worth_measuring();
    uint64_t before = purged_ever;
    lock_release(&lock);
    if (measures) {
        measure(measured, first);
    }
    if (wanted == 0) {
        return (struct found){0, false};
    }
    begin_if_over(search, first, before);
    struct holes_found holes = holes_purge_some(search, UNITS_AT_A_LOOK, wanted);
    size_t bytes = holes.bytes;
    lock_acquire(&lock);
    note_seen(&holes);
    purged += bytes;
    purged_ever += bytes;
    if (bytes >= wanted / WORTHWHILE_PART) {
        caution = caution > 1 ? caution / 2 : 1;
    }
    size_t over = excess();
    bool is_over = holes_round_is_over(search);
    if (is_over && over > 0) {
        note_end_of_round(search, over);
    }
    lock_release(&lock);
    return (struct found){bytes, !is_over && over > 0};
}

/* In small blocks. */
static size_t cached_bytes(const struct heap *self) {
    size_t bytes = 0;
    for (unsigned c = 0; c < TINY_CLASSES; c++) {
        bytes += magazine_count(&self->magazines[c]) * size_classes[c].bytes;
    }
    return bytes;
}

void slack_look(struct heap *self) {
    size_t again = self->page_bytes;
    self->unlooked_bytes = SLACK_LOOK_BYTES;
    self->page_bytes = 0;
    struct found found = look(&self->search, &self->measured, self->id - 1,
                              again); /* its own first: threads do not meet there */
    if (found.bytes > 0) {
        lock_acquire(&lock);
        count_again(found.bytes); /* where that was, there may be as much */
        lock_release(&lock);
    }
    lock_acquire(&lock);
    bool is_over = excess() > 0;
    int64_t allowed = slack_allowed() + grace_now();
    lock_release(&lock);
    if (self->lean_classes == 0 && slack_resident() > allowed &&
        cached_bytes(self) > arena_held_bytes() / CACHED_PART) {
        self->lean_classes = TINY_CLASSES;
        self->lean_looks = is_over ? LEAN_LOOKS : 0;
    } else if (self->lean_looks > 0) {
        self->lean_looks--;
    }
    arena_look(); /* with each block that is free in a slab, fewer slabs may be */
}

/* Where more than a part of what was purged is taken again until the next relief, the next come seldom. */
static bool is_worth_it(uint64_t purged_before) {
    static uint64_t taken_then;
    static unsigned patience = 1, passed;
    uint64_t taken = holes_taken_again() - taken_then;
    if (purged_before > 0 && taken > purged_before / MISTAKEN_PART) {
        patience = (unsigned)min_size((size_t)patience * 2, PATIENCE_MOST);
    } else if (purged_before > 0 && patience > 1) {
        patience--;
    }
    taken_then += taken;
    if (++passed < patience) {
        return false;
    }
    passed = 0;
    return true;
}

COLD bool slack_relieve(void) {
    static struct search search, measured;
    static size_t purged_before;
    static bool is_on;
    if (!is_on) {
        bool worth_it = is_worth_it(purged_before);
        purged_before = 0;
        if (!worth_it) {
            return false;
        }
        search = (struct search){.heaps = 0}; /* where the last one was done, more may be free by now */
    }
    uint64_t until = os_now_ns() + RELIEF_NS;
    do {
        struct found found = look(&search, &measured, 0, 0);
        purged_before += found.bytes;
        is_on = found.more;
    } while (is_on && os_now_ns() < until);
    return is_on;
}
