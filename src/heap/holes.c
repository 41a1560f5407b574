#include "heap/holes.h"

#include "arena/arena.h"
#include "os/os.h"
#include "os/report.h"

/* What a pass costs is counted in units of a look at a slab's header, which mostly is not in the cache. */
#define UNITS_OF_A_CALL 16
#define WORDS_OF_A_UNIT 4
/* Before the heap's lock is let go for a moment. */
#define UNITS_AT_ONCE 2048
/* The part of a slab that must be free, or its pages will soon be wanted again. */
#define FREE_PART 4
/* Refusals in a row after which the OS is asked no more, and for how long: memory may be locked. */
#define REFUSALS_MOST 8
#define REFUSED_MS 10000
/* Where more than this part of what was purged is taken again soon, the next look is twice as far. */
#define MISSED_PART 4
#define PATIENCE_MOST 64u

struct pass {
    bool idle_only;
    unsigned units;       /* that are left */
    unsigned until_pause; /* of them, with the lock held */
    unsigned refusals;    /* in a row */
    bool waiting;         /* a slab is to be looked at again */
    size_t purged_slabs;
    size_t bytes;
};

static _Atomic uint32_t taken_again; /* relaxed: a guess */

void holes_note_taken(void) {
    atomic_fetch_add_explicit(&taken_again, 1, memory_order_relaxed);
}

static void charge(struct pass *pass, size_t units) {
    pass->units -= (unsigned)min_size(units, pass->units);
    pass->until_pause -= (unsigned)min_size(units, pass->until_pause);
}

static bool may_go_on(const struct pass *pass) {
    return pass->units > 0 && pass->refusals < REFUSALS_MOST;
}

/* What has been done to one slab. */
struct purged {
    unsigned calls;
    size_t bytes;
};

/* Purges what of the pages first..end-1 was not before. False if the OS does not take it. */
static bool purge_pages(struct pass *pass, struct slab *slab, size_t first, size_t end,
                        struct purged *purged) {
    uintptr_t start = arena_address(slab);
    size_t of_a_bit = slab_pages_of_a_bit(slab);
    uint32_t mask = slab_purged(slab);
    bool taken = true;
    while (first < end && taken) {
        size_t past = first; /* behind what is to be purged by the next call */
        while (past < end && ((mask >> past / of_a_bit & 1) == 0 || past % of_a_bit != 0)) {
            past = min_size((past / of_a_bit + 1) * of_a_bit, end);
        }
        if (past > first) {
            size_t bytes = (past - first) * OS_PAGE_BYTES;
            taken = arena_purge_hole(start + first * OS_PAGE_BYTES, bytes);
            purged->calls++;
            if (taken) {
                pass->refusals = 0;
                purged->bytes += bytes;
            } else {
                pass->refusals++;
                report_fallback(FALLBACK_PURGE_FAILED, bytes);
            }
            for (size_t bit = (first + of_a_bit - 1) / of_a_bit; taken && (bit + 1) * of_a_bit <= past;
                 bit++) {
                mask |= (uint32_t)1 << bit;
            }
        }
        for (size_t bit = past / of_a_bit; past < end && (mask >> bit & 1) != 0; bit++) {
            past = min_size((bit + 1) * of_a_bit, end);
        }
        first = past;
    }
    slab_set_purged(slab, mask);
    return taken;
}

/* Returns whether all of its holes are gone. */
static bool purge_slab(struct pass *pass, struct slab *slab) {
    size_t from = 0;
    size_t end = 0;
    struct purged purged = {0, 0};
    bool taken = true;
    while (taken && slab_next_hole(slab, &from, &end)) {
        taken = purge_pages(pass, slab, from / OS_PAGE_BYTES, end / OS_PAGE_BYTES, &purged);
    }
    if (purged.calls > 0) {
        arena_note_holes(purged.calls, purged.bytes);
    }
    charge(pass,
           size_classes[slab->size_class].words / WORDS_OF_A_UNIT + (size_t)purged.calls * UNITS_OF_A_CALL);
    pass->purged_slabs += purged.bytes > 0;
    pass->bytes += purged.bytes;
    return taken;
}

static bool is_sparse(const struct slab *slab) {
    return slab_count_free(slab) >= size_classes[slab->size_class].blocks / FREE_PART;
}

/* relaxed throughout: whoever returns a block meanwhile may see its note overwritten, and its page stays
 * until another one comes back */
static void look_at(struct pass *pass, struct slab *slab) {
    uint8_t seen = atomic_load_explicit(&slab->returned, memory_order_relaxed);
    uint8_t now = SLAB_SEEN;
    charge(pass, 1);
    if (seen == SLAB_NONE_RETURNED || seen == SLAB_WITHOUT_HOLES ||
        (pass->idle_only && seen == SLAB_HOLES_LEFT)) {
        return;
    }
    if (pass->idle_only && seen == SLAB_RETURNED) {
        pass->waiting = true;
    } else if (pass->idle_only && !is_sparse(slab)) {
        charge(pass, size_classes[slab->size_class].words / WORDS_OF_A_UNIT);
        now = SLAB_HOLES_LEFT;
    } else {
        now = purge_slab(pass, slab) ? SLAB_WITHOUT_HOLES : SLAB_HOLES_LEFT;
    }
    atomic_store_explicit(&slab->returned, now, memory_order_relaxed);
}

/* Every slab of the list once, as far as the pass goes: those looked at go to its end. */
static void look_at_list(struct pass *pass, struct heap *heap, unsigned size_class) {
    lock_acquire(&heap->lock);
    for (uint32_t left = bin_count_partial(heap, size_class); left > 0 && may_go_on(pass); left--) {
        struct slab *slab = bin_rotate_partial(heap, size_class);
        if (slab == NULL) {
            break;
        }
        look_at(pass, slab);
        if (pass->until_pause == 0) {
            pass->until_pause = UNITS_AT_ONCE;
            lock_release(&heap->lock);
            if (pass->idle_only) {
                os_sleep_ms(1); /* or whoever waits for the lock would hardly get it */
            }
            lock_acquire(&heap->lock);
        }
    }
    lock_release(&heap->lock);
}

static void look_at_heap(struct pass *pass, struct heap *heap) {
    lock_acquire(&heap->lock);
    bin_drain_inbox(heap);
    lock_release(&heap->lock);
    for (unsigned c = 0; c < SIZE_CLASSES && may_go_on(pass); c++) {
        if (bin_count_partial(heap, c) > 0) {
            look_at_list(pass, heap, c);
        }
    }
}

size_t holes_purge(struct heap *heap) {
    struct pass pass = {.idle_only = false, .units = UINT32_MAX, .until_pause = UNITS_AT_ONCE};
    look_at_heap(&pass, heap);
    return pass.bytes;
}

static struct lock turn; /* one caller at a time; protects the statics of holes_purge_idle */

void holes_turn_lost_by_fork(void) {
    lock_end_fork(&turn, true);
}

bool holes_purge_idle(unsigned units) {
    static uint32_t next_heap;
    static uint32_t patience = 1, periods;
    static uint64_t refused_until_ms;
    bool more = true;
    if (!lock_try(&turn)) {
        return true;
    }
    if (++periods >= patience && os_now_ms() >= refused_until_ms) {
        struct pass pass = {.idle_only = true, .units = units, .until_pause = UNITS_AT_ONCE};
        uint32_t heaps = heap_id_limit();
        periods = 0;
        for (uint32_t i = 1; i < heaps && may_go_on(&pass); i++) {
            next_heap = next_heap % (heaps - 1) + 1;
            struct heap *heap = heap_by_id(next_heap);
            if (heap != NULL) {
                look_at_heap(&pass, heap);
            }
        }
        if (pass.units == 0) {
            next_heap--; /* the rest of its slabs is the first of the next pass */
        }
        if (pass.refusals >= REFUSALS_MOST) {
            refused_until_ms = os_now_ms() + REFUSED_MS;
        }
        uint32_t missed = atomic_exchange_explicit(&taken_again, 0, memory_order_relaxed);
        if (missed > pass.purged_slabs / MISSED_PART) {
            patience = (uint32_t)min_size((size_t)patience * 2, PATIENCE_MOST);
        } else if (patience > 1 && missed == 0) {
            patience--;
        }
        more = pass.waiting || pass.units == 0;
    }
    lock_release(&turn);
    return more;
}
