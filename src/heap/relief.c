#include "heap/relief.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "heap/holes.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"

/* Units of work (holes.h) in one look: some 0.3 ms. */
#define UNITS_AT_A_LOOK 3000

/* Time after which relief_look_everywhere begins no further look. */
#define RELIEF_NS 2000000

/* While more is free than may be, a thread may cache, in small blocks, 1/CACHED_PART of what the program
 * holds: where it caches more, that is what keeps the pages. */
#define CACHED_PART 16
/* So it is where it caches as much as this, and its blocks, each in a page of its own, could keep 1/KEPT_PART
 * of what is over. */
#define CACHED_MOST_BYTES ((size_t)2 << 20)
#define KEPT_PART 2
/* Looks, one for each 256 KiB, for which the magazines of a thread that caches more then stay small: what a
 * program frees last, 16 MiB, would be in them otherwise. */
#define LEAN_LOOKS 64

/* A round that finds less than 1/WORTHLESS_PART of what is over the bound was not worth it: after it twice as
 * much may be free, up to CAUTION_MOST times as much. */
#define WORTHLESS_PART 8
#define CAUTION_MOST 4u
/* Pages that have become free end that: first those of 1/WORTHLESS_PART of what is over, or of what may be
 * free; twice as much after each time that this was worthless, too, up to 2^DOUBTS_MOST times. */
#define DOUBTS_MOST 6u
/* A look that finds 1/WORTHWHILE_PART of what it looks for was worth it, and halves how many times as much
 * that is. */
#define WORTHWHILE_PART 2

/* Where the library's thread is there, GRACE_TIMES the grace may be free, but no more than the program
 * holds: one that hands blocks on from thread to thread purges most of what it has before it has learned
 * the grace. */
#define GRACE_TIMES 4
/* Where it is not, so much of the grace may be free whatever the program holds. */
#define GRACE_MOST_BYTES ((size_t)64 << 20)
/* So much of it tells that the program breathes. */
#define GRACE_OF_A_BREATH_BYTES ((size_t)4 << 20)
/* Each period without a mistake halves the grace: after GRACE_HALVED_MOST nothing is left of it. */
#define GRACE_HALVED_MOST 40
/* 1/PURGED_PART of the bound is purged in addition to what is over it. */
#define PURGED_PART 16

static struct lock lock;     /* protects what follows; nothing else is done while it is held */
static int64_t low;          /* slack below this mark is ignored: a round found little of it to purge */
static unsigned caution = 1; /* times slack_allowed that may be free; more than 1 after worthless rounds */
/* Bytes of pages of which all blocks have become free since the last such round, and what the program held
 * then. */
static size_t emptied, cautious_held;
static unsigned doubts; /* rounds in a row, up to DOUBTS_MOST, that such pages brought about, in vain */
static struct period {
    size_t purged;            /* bytes, and not taken again */
    bool mistaken;            /* some were taken again, in this period or the next */
} now, before;                /* this period of the decay, and the last */
static size_t grace;          /* bytes that may be free in addition */
static uint64_t taken_before; /* slack_taken_again when note_mistakes last looked */
static uint64_t period_ms;    /* os_now_ms when the period began */
static uint64_t purged_ever;  /* bytes, by all looks */

COLD void relief_lock_lost_by_fork(void) {
    lock_end_fork(&lock, true);
}

/* Adds half of what was purged and taken again in the same period, or the next one, to the grace: what a
 * program breathes may stay after a few breaths, and where a phase has ended for good, little too much does.
 * Lock held. */
static void note_mistakes(void) {
    uint64_t taken = slack_taken_again();
    size_t mistaken = min_size((size_t)(taken - taken_before), now.purged + before.purged);
    size_t of_before = min_size(mistaken, before.purged);
    taken_before = taken;
    before.purged -= of_before;
    now.purged -= mistaken - of_before;
    now.mistaken = now.mistaken || mistaken > 0;
    grace = min_size(grace + mistaken / 2, option_number(OPTION_RETAIN_GRACE));
    if (grace >= GRACE_OF_A_BREATH_BYTES) {
        decay_note_breath();
    }
    uint64_t now_ms = os_now_ms();
    uint64_t periods = (now_ms - period_ms) / decay_period_ms();
    if (periods > 0) {
        period_ms = now_ms;
        grace >>= min_size(now.mistaken || before.mistaken ? periods - 1 : periods, GRACE_HALVED_MOST);
        before = periods == 1 ? now : (struct period){0, false};
        now = (struct period){0, false};
    }
}

/* Bytes that may be free as grace: where the library's thread is not there, no more than was learned, and
 * only GRACE_MOST_BYTES of it where the program holds less, because one that frees nothing more would keep it
 * for good. */
static int64_t grace_now(void) {
    if (arena_is_scarce()) {
        return 0;
    }
    size_t held = arena_held_bytes();
    if (!decay_is_on()) {
        return (int64_t)min_size(grace, max_size(held, GRACE_MOST_BYTES));
    }
    size_t most = min_size(held, option_number(OPTION_RETAIN_GRACE));
    return (int64_t)max_size(grace, min_size(grace * GRACE_TIMES, most));
}

/* Bytes above `low` that may be free. */
static int64_t bound(void) {
    return slack_allowed() * caution + grace_now();
}

/* Bytes to be purged: what is over the bound, and a part of the bound, so that the next look does not find it
 * exceeded again; 0 if it is not. Lock held. */
static size_t excess(void) {
    int64_t resident = slack_resident();
    int64_t most = bound();
    low = resident < low ? resident : low;
    return resident - low > most ? (size_t)(resident - low - most + most / PURGED_PART) : 0;
}

/* A round has ended, and `over` bytes are still to be purged. Where little was found, by all threads
 * together, the rest shares pages with blocks in use and is ignored. Lock held. */
static void note_end_of_round(const struct search *search, size_t over) {
    if (purged_ever - search->purged >= over / WORTHLESS_PART) {
        caution = 1;
        doubts = 0;
    } else {
        caution = (unsigned)min_size((size_t)caution * 2, CAUTION_MOST);
        low = slack_resident();
        emptied = 0;
        cautious_held = arena_held_bytes();
    }
}

/* Lowers the mark below which slack is ignored by `bytes`, to 0 at least. Lock held. */
static void count_again(size_t bytes) {
    low -= (int64_t)min_size(bytes, low > 0 ? (size_t)low : 0);
}

/* Pages of `bytes` are free now: where all such since a worthless round make another one worth it, or half of
 * what kept the others is gone, caution is forgotten. Lock held. */
static void note_emptied(size_t bytes) {
    count_again(bytes);
    emptied += bytes;
    int64_t allowed = slack_allowed();
    int64_t over = slack_resident() - allowed - grace_now();
    if (caution == 1 || over <= 0) {
        return;
    }
    size_t worth_it = (size_t)(over > allowed ? over : allowed) / WORTHLESS_PART << doubts;
    bool half_is_gone = arena_held_bytes() < cautious_held / 2;
    if (half_is_gone || emptied >= worth_it) {
        caution = 1;
        low = 0;
        doubts = half_is_gone ? 0 : doubts + (doubts < DOUBTS_MOST);
    }
}

struct found {
    size_t bytes;
    bool more; /* the round has not ended, and there is more to be purged */
};

/* One look: lowers the mark by `again` bytes, then goes on with the round of `search` if there is anything
 * to be purged. A round that is over begins anew behind heap `first`. */
static struct found look(struct search *search, uint32_t first, size_t again) {
    lock_acquire(&lock);
    note_mistakes();
    note_emptied(again);
    size_t wanted = excess();
    uint64_t purged_until_now = purged_ever;
    lock_release(&lock);
    if (wanted == 0) {
        return (struct found){0, false};
    }
    if (holes_round_is_over(search)) {
        holes_begin_round(search, first);
        search->purged = purged_until_now;
    }
    size_t bytes = holes_purge_some(search, UNITS_AT_A_LOOK, wanted);
    lock_acquire(&lock);
    now.purged += bytes;
    purged_ever += bytes;
    if (bytes >= wanted / WORTHWHILE_PART) {
        caution = caution > 1 ? caution / 2 : 1;
        doubts = 0;
    }
    size_t over = excess();
    bool is_over = holes_round_is_over(search);
    if (is_over && over > 0) {
        note_end_of_round(search, over);
    }
    lock_release(&lock);
    return (struct found){bytes, !is_over && over > 0};
}

COLD enum relief_kept relief_kept_by(const struct heap *self) {
    lock_acquire(&lock);
    int64_t over = slack_resident() - slack_allowed() - grace_now();
    lock_release(&lock);
    size_t bytes = 0;
    size_t blocks = 0;
    for (unsigned c = 0; over > 0 && c < TINY_CLASSES; c++) {
        size_t n = magazine_count(&self->magazines[c]);
        blocks += n;
        bytes += n * size_classes[c].bytes;
    }
    if (bytes > arena_held_bytes() / CACHED_PART) {
        return KEPT_MUCH;
    }
    bool keeps = bytes > CACHED_MOST_BYTES && blocks * OS_PAGE_BYTES > (size_t)over / KEPT_PART;
    return keeps ? KEPT_IN_MANY_PAGES : KEPT_LITTLE;
}

/* Why rounds found little is known: what magazines hold keeps the pages. */
static COLD void forget_caution(void) {
    lock_acquire(&lock);
    caution = 1;
    lock_release(&lock);
}

void relief_look(struct heap *self) {
    size_t again = self->page_bytes;
    self->unlooked_bytes = RELIEF_LOOK_BYTES;
    self->page_bytes = 0;
    /* Its own heap first: threads do not meet there. */
    struct found found = look(&self->search, self->id - 1, again);
    lock_acquire(&lock);
    count_again(found.bytes); /* where that was found, there may be as much again */
    bool is_over = excess() > 0;
    lock_release(&lock);
    /* relief_kept_by asks more exactly, but it is code that most programs do not come to. */
    bool may_cache_much = self->lean_classes == 0 && !self->emptying && slack_exceeds();
    enum relief_kept kept = UNLIKELY(may_cache_much) ? relief_kept_by(self) : KEPT_LITTLE;
    if (kept != KEPT_LITTLE) {
        self->lean_classes = TINY_CLASSES;
        self->lean_looks = is_over ? LEAN_LOOKS : 0;
        if (kept == KEPT_IN_MANY_PAGES) {
            forget_caution();
        }
    } else if (self->lean_looks > 0) {
        self->lean_looks--;
    }
    arena_look(); /* the more blocks are free in slabs, the fewer free slabs may be resident */
}

COLD bool relief_look_everywhere(void) {
    static struct search search;
    static bool is_on;
    if (!is_on) {
        search = (struct search){.heaps = 0}; /* where the last one was done, more may be free by now */
    }
    uint64_t until = os_now_ns() + RELIEF_NS;
    do {
        is_on = look(&search, 0, 0).more;
    } while (is_on && os_now_ns() < until);
    return is_on;
}
