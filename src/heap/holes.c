#include "heap/holes.h"

#include "arena/purge.h"
#include "arena/run.h"
#include "heap/bins.h"
#include "heap/heap_table.h"
#include "heap/partial.h"
#include "heap/slack.h"
#include "os/backoff.h"
#include "os/os.h"
#include "os/report.h"

/* What a pass costs is counted in units: a look at a slab's header, which mostly is not in the cache, is one.
 * A hole is UNITS_OF_A_HOLE and one for each page; one is also to read WORDS_OF_A_UNIT words of a bitmap. */
#define UNITS_OF_A_HOLE 16
#define WORDS_OF_A_UNIT 4
/* Units after which the heap's lock is let go for a moment: 0.1 ms. */
#define UNITS_AT_ONCE 1024
/* The part of a slab that must be free (1/FREE_PART), or its pages will soon be wanted again. */
#define FREE_PART 4
/* Refusals in a row after which the OS is asked no more for a while: memory may be locked. */
#define REFUSALS_MOST 8
/* Where more is taken again between two idle passes than 1/MISSED_PART of what the later one purges, the next
 * is left for twice as many calls, PATIENCE_MOST at most. */
#define MISSED_PART 4
#define PATIENCE_MOST 64u

/* Slabs that a pass purges holes of. */
enum pass_kind {
    PASS_ALL,   /* all that have any */
    PASS_SLACK, /* those of which enough is free, and to which blocks came back since the last look */
    PASS_IDLE,  /* those of PASS_SLACK to which none came back since the last idle pass */
};

struct pass {
    enum pass_kind kind;
    unsigned units;       /* of work that are left */
    unsigned until_pause; /* of units, until the heap's lock is let go for a moment */
    unsigned refusals;    /* of the OS, in a row */
    bool waiting;         /* a slab has to wait for the next idle pass, because blocks came back to it */
    size_t purged;        /* bytes */
    /* Collected in slabs of the heap that is locked, to be purged by one call. */
    size_t holes;
    struct iovec ranges[ARENA_HOLES_MOST];
    struct part {
        struct slab *slab;
        uint32_t bits; /* of its mask of purged pages, that the range stands for */
    } of[ARENA_HOLES_MOST];
};

static void charge(struct pass *pass, size_t units) {
    pass->units -= (unsigned)min_size(units, pass->units);
    pass->until_pause -= (unsigned)min_size(units, pass->until_pause);
}

static bool may_go_on(const struct pass *pass) {
    return pass->units > 0 && pass->refusals < REFUSALS_MOST;
}

/* Purges what has been collected. The heap's lock has been held since it was. */
static void purge_collected(struct pass *pass) {
    bool done[ARENA_HOLES_MOST];
    if (pass->holes == 0) {
        return;
    }
    arena_purge_holes(pass->ranges, pass->holes, done);
    for (size_t i = 0; i < pass->holes; i++) {
        struct slab *slab = pass->of[i].slab;
        if (done[i]) {
            pass->refusals = 0;
            pass->purged += pass->ranges[i].iov_len;
            size_t had = slab_purged_bytes(slab);
            slab_set_purged(slab, slab_purged(slab) | pass->of[i].bits);
            slack_note_purged((int64_t)(slab_purged_bytes(slab) - had));
        } else {
            pass->refusals++;
            report_fallback(FALLBACK_PURGE_FAILED, pass->ranges[i].iov_len);
            /* worth another try; relaxed: as in look_at */
            atomic_store_explicit(&slab->returned, SLAB_SEEN, memory_order_relaxed);
        }
    }
    pass->holes = 0;
}

/* The bits of the mask that stand for pages first..past-1 alone; the last bit may stand for less. */
static uint32_t bits_within(const struct slab *slab, size_t first, size_t past) {
    size_t of_a_bit = slab_pages_of_a_bit(slab);
    bool to_its_end = past == slab->run_slabs * (SLAB_BYTES / OS_PAGE_BYTES);
    size_t from = (first + of_a_bit - 1) / of_a_bit;
    size_t to = (to_its_end ? past + of_a_bit - 1 : past) / of_a_bit;
    return from < to ? bits32_below((unsigned)to) & ~bits32_below((unsigned)from) : 0;
}

/* Collects what of the pages first..end-1 was not purged before. */
static void collect(struct pass *pass, struct slab *slab, size_t first, size_t end) {
    uintptr_t start = arena_address(slab);
    size_t of_a_bit = slab_pages_of_a_bit(slab);
    uint32_t mask = slab_purged(slab);
    while (first < end) {
        size_t past = first; /* behind what is to be purged by the next call */
        while (past < end && ((mask >> past / of_a_bit & 1) == 0 || past % of_a_bit != 0)) {
            past = min_size((past / of_a_bit + 1) * of_a_bit, end);
        }
        if (past > first) {
            if (pass->holes == ARENA_HOLES_MOST) {
                purge_collected(pass);
            }
            pass->of[pass->holes] = (struct part){slab, bits_within(slab, first, past)};
            pass->ranges[pass->holes++] =
                (struct iovec){(void *)(start + first * OS_PAGE_BYTES), (past - first) * OS_PAGE_BYTES};
            charge(pass, UNITS_OF_A_HOLE + (past - first));
        }
        for (size_t bit = past / of_a_bit; past < end && (mask >> bit & 1) != 0; bit++) {
            past = min_size((bit + 1) * of_a_bit, end);
        }
        first = past;
    }
}

static void collect_holes(struct pass *pass, struct slab *slab) {
    size_t from = 0;
    size_t end = 0;
    charge(pass, size_classes[slab->size_class].words / WORDS_OF_A_UNIT);
    while (slab_next_hole(slab, &from, &end)) {
        collect(pass, slab, from / OS_PAGE_BYTES, end / OS_PAGE_BYTES);
    }
}

/* Blocks up to this size fill a whole word of the bitmap wherever they fill a page. */
#define WORD_IN_A_PAGE_BYTES 32

/* Whether so much of the slab is free that its holes are worth a purge. */
static bool is_sparse(const struct slab *slab) {
    if (size_classes[slab->size_class].bytes <= WORD_IN_A_PAGE_BYTES &&
        atomic_load_explicit(&slab->full_words, memory_order_relaxed) == 0) { /* relaxed: a hint */
        return false;
    }
    return slab_count_free(slab) >= size_classes[slab->size_class].blocks / FREE_PART;
}

/* Looks at one slab of the list: collects its holes where the kind of pass and what came back since say so.
 * relaxed throughout: whoever returns a block meanwhile may see its note overwritten, and its page stays
 * until another one comes back */
static void look_at(struct pass *pass, struct slab *slab) {
    uint8_t seen = atomic_load_explicit(&slab->returned, memory_order_relaxed);
    uint8_t now = SLAB_SEEN;
    charge(pass, 1);
    if (seen == SLAB_NONE_RETURNED || seen == SLAB_WITHOUT_HOLES ||
        (pass->kind != PASS_ALL && seen == SLAB_HOLES_LEFT)) {
        return;
    }
    if (pass->kind == PASS_IDLE && seen == SLAB_RETURNED) {
        pass->waiting = true;
    } else if (pass->kind != PASS_ALL && !is_sparse(slab)) {
        charge(pass, size_classes[slab->size_class].words / WORDS_OF_A_UNIT);
        now = SLAB_HOLES_LEFT;
    } else {
        now = SLAB_WITHOUT_HOLES;
    }
    atomic_store_explicit(&slab->returned, now, memory_order_relaxed);
    if (now == SLAB_WITHOUT_HOLES) {
        collect_holes(pass, slab);
    }
}

/* Purges what was collected, and lets go of the heap's lock. */
static void let_go(struct pass *pass, struct heap *heap) {
    purge_collected(pass);
    if (pass->kind == PASS_SLACK && lock_is_wanted(&heap->lock)) {
        lock_hand_over(&heap->lock);
    } else {
        lock_release(&heap->lock);
    }
}

/* Looks at the first `left` slabs of the class's list, as far as the pass goes: those looked at go to its
 * end. Returns how many are then left. */
static uint32_t look_at_list(struct pass *pass, struct heap *heap, unsigned size_class, uint32_t left) {
    lock_acquire(&heap->lock);
    for (; left > 0 && may_go_on(pass); left--) {
        struct slab *slab = partial_rotate(heap, size_class);
        if (slab == NULL) {
            left = 0;
            break;
        }
        look_at(pass, slab);
        if (pass->kind == PASS_SLACK && lock_is_wanted(&heap->lock)) {
            pass->units = 0;
        } else if (pass->until_pause == 0) {
            pass->until_pause = UNITS_AT_ONCE;
            let_go(pass, heap);
            if (pass->kind == PASS_IDLE) {
                os_sleep_ms(1); /* or whoever waits for the lock would hardly get it */
            }
            lock_acquire(&heap->lock);
        }
    }
    let_go(pass, heap);
    return left;
}

static void take_in_inbox(struct heap *heap) {
    lock_acquire(&heap->lock);
    bin_drain_inbox(heap);
    lock_release(&heap->lock);
}

static void look_at_heap(struct pass *pass, struct heap *heap) {
    if (!bin_has_partial(heap)) {
        return; /* the memory of its lists, which may not be resident, is not touched */
    }
    take_in_inbox(heap);
    for (unsigned c = 0; c < SIZE_CLASSES && may_go_on(pass); c++) {
        uint32_t slabs = bin_count_partial(heap, c);
        if (slabs > 0) {
            look_at_list(pass, heap, c, slabs);
        }
    }
}

void holes_purge(struct heap *heap) {
    struct pass pass = {.kind = PASS_ALL, .units = UINT32_MAX, .until_pause = UNITS_AT_ONCE};
    look_at_heap(&pass, heap);
}

static struct lock turn;       /* one caller at a time; protects the statics of holes_purge_idle */
static struct backoff refused; /* after REFUSALS_MOST refusals of the OS */

COLD void holes_turn_lost_by_fork(void) {
    lock_end_fork(&turn, true);
}

void holes_follow_into_child(void) {
    backoff_end(&refused);
}

static void note_refusals(const struct pass *pass) {
    if (pass->refusals >= REFUSALS_MOST) {
        backoff_begin(&refused);
    } else if (pass->purged > 0) {
        backoff_end(&refused);
    }
}

bool holes_purge_idle(unsigned units) {
    static uint32_t next_heap;
    static uint32_t patience = 1, periods;
    static uint64_t seen_taken;
    bool more = true;
    if (!lock_try(&turn)) {
        return true;
    }
    if (++periods >= patience && !backoff_holds(&refused)) {
        struct pass pass = {.kind = PASS_IDLE, .units = units, .until_pause = UNITS_AT_ONCE};
        uint32_t heaps = heap_id_limit();
        periods = 0;
        for (uint32_t i = 1; i < heaps && may_go_on(&pass); i++) {
            next_heap = next_heap % (heaps - 1) + 1;
            look_at_heap(&pass, heap_by_id(next_heap));
        }
        if (pass.units == 0) {
            next_heap--; /* the rest of its slabs is the first of the next pass */
        }
        note_refusals(&pass);
        uint64_t missed = slack_taken_again() - seen_taken;
        seen_taken += missed;
        if (missed > pass.purged / MISSED_PART) {
            patience = (uint32_t)min_size((size_t)patience * 2, PATIENCE_MOST);
        } else if (patience > 1 && missed == 0) {
            patience--;
        }
        more = pass.waiting || pass.units == 0 ||
               (pass.refusals >= REFUSALS_MOST && !backoff_is_longest(&refused)); /* it may take them yet */
    }
    lock_release(&turn);
    return more;
}

/* Units of going to a heap, whatever is in it. */
#define UNITS_OF_A_HEAP 100

/* One step of a search: some slabs of a list, or on to the next class or heap. */
static void go_on(struct pass *pass, struct search *at) {
    if (at->slabs > 0) {
        at->slabs = look_at_list(pass, heap_by_id(at->heap), at->classes, at->slabs);
    } else if (at->classes > 0) {
        at->slabs = bin_count_partial(heap_by_id(at->heap), --at->classes);
    } else {
        at->heap = at->heap % (heap_id_limit() - 1) + 1;
        at->heaps--;
        struct heap *heap = heap_by_id(at->heap);
        if (bin_has_partial(heap)) {
            take_in_inbox(heap);
            at->classes = SIZE_CLASSES;
            charge(pass, UNITS_OF_A_HEAP);
        }
        charge(pass, 1);
    }
}

void holes_begin_round(struct search *at, uint32_t heap) {
    *at = (struct search){.heap = heap, .heaps = heap_id_limit() - 1};
}

size_t holes_purge_some(struct search *at, unsigned units, size_t wanted) {
    struct pass pass = {.kind = PASS_SLACK, .units = units, .until_pause = UNITS_AT_ONCE};
    bool asked = !backoff_holds(&refused);
    while (asked && !holes_round_is_over(at) && pass.purged < wanted && may_go_on(&pass)) {
        go_on(&pass, at);
    }
    note_refusals(&pass);
    if (!asked || backoff_holds(&refused)) {
        at->heaps = at->classes = at->slabs = 0;
    }
    return pass.purged;
}
