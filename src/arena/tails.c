#include "arena/tails.h"

#include "arena/bound.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/purge.h"
#include "arena/run.h"
#include "arena/waiting.h"
#include "arena/walk.h"
#include "options/options.h"
#include "os/backoff.h"
#include "os/os.h"

#include <stdatomic.h>

/* All tails may hold so many times what may stay resident of free memory: where blocks of one slab to three
 * come in all sizes, a quarter of what they take is in tails, and they would lose pages and touch them again
 * all the time. */
#define MOST_TIMES 2
/* And this part of it more, where they are parts of huge pages. */
#define HUGE_MORE_PART 3
/* While tails hold no more than this part of what may stay resident of free memory, new blocks may be
 * resident throughout. */
#define AHEAD_PART 2
/* Smaller tails are not worth a system call. */
#define WORTH_BYTES ((size_t)4 * OS_PAGE_BYTES)

/* What tails_change gathers before it changes the sum: threads that did that all the time would wait for each
 * other, and so much more or less in each does not matter. */
#define LATER_MOST_BYTES ((int64_t)128 << 10)

/* Bytes of all tails that may be resident. relaxed everywhere: a sum that orders nothing */
static struct { _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t bytes; } tails;

/* The sum with `tail` more. */
static int64_t with(size_t tail) {
    return atomic_load_explicit(&tails.bytes, memory_order_relaxed) + (int64_t)tail;
}

static int64_t allowed(void) {
    return MOST_TIMES * (int64_t)arena_share_bytes();
}

static bool exceed(size_t with_another) {
    return with(with_another) > allowed();
}

/* Whether tails hold so much that those on huge pages are purged, too: these become small pages by that. */
static bool exceed_by_far(size_t with_another) {
    return with(with_another) > allowed() + allowed() / HUGE_MORE_PART;
}

bool tails_allow(size_t span) {
    return with(round_up(span, SLAB_BYTES) - span) <= (int64_t)arena_share_bytes() / AHEAD_PART;
}

/* A block may keep the part of itself that may stay of free memory: if all blocks do, the tails hold half of
 * what they may. And a few pages, if these are no more than all that they may. */
static bool is_worth_purging(size_t span, size_t tail) {
    size_t part = span / 100 * (size_t)option_number(OPTION_RETAIN_PERCENT);
    return tail > part && tail >= min_size(WORTH_BYTES, MOST_TIMES * part);
}

static bool purge(uintptr_t start, size_t bytes) {
    lock_acquire(&arena.lock);
    bool huge = dense_is_huge(start);
    lock_release(&arena.lock);
    bool done = false;
    if (!huge || exceed_by_far(bytes)) {
        struct iovec tail = {(void *)start, bytes};
        arena_purge_holes(&tail, 1, &done);
    }
    return done;
}

static size_t tail_of(const struct slab *head, size_t span) {
    return head->run_slabs * SLAB_BYTES - span;
}

/* How a tail changes: its block's thread makes it clean or dirty; any thread that has seen, under the arena's
 * lock, that it is dirty may purge it, and the block's thread waits for that before it does anything with the
 * run. The lock is what keeps the run one of the large lane until then: to give it back, its thread needs the
 * lock, too, and before that has made the tail clean. */

/* While nobody purges anything: whether whoever was about to purge the tail is not in this process, a child
 * of a fork that could not wait for him. Makes it clean. Arena lock held. */
static bool forget_lost_purge(struct slab *head) {
    /* relaxed: he wrote nothing */
    uint8_t tail = TAIL_PURGED;
    return atomic_compare_exchange_strong_explicit(&head->tail, &tail, TAIL_CLEAN, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* The block's thread: from here on nobody purges the tail. Returns whether it was dirty, and counts. */
static bool make_clean(struct slab *head) {
    for (;;) {
        /* acquire pairs with the release in purge_claimed: the pages are gone before the run is used */
        uint8_t tail = atomic_load_explicit(&head->tail, memory_order_acquire);
        if (tail == TAIL_CLEAN) {
            return false;
        }
        /* relaxed: nothing is handed over; what is known of the run is this thread's */
        if (tail == TAIL_DIRTY &&
            atomic_compare_exchange_strong_explicit(&head->tail, &tail, TAIL_CLEAN, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            return true;
        }
        if (tail == TAIL_PURGED) {
            lock_acquire(&arena.lock);
            bool lost = !arena_wait_for_one_purge() && forget_lost_purge(head);
            lock_release(&arena.lock);
            if (lost) {
                return true;
            }
        }
    }
}

/* The block's thread, of a clean tail. */
static void make_dirty(struct slab *head) {
    /* release pairs with the acquire in claim_tail: whoever purges it knows the block's length */
    atomic_store_explicit(&head->tail, TAIL_DIRTY, memory_order_release);
}

void tails_add(struct slab *head, size_t span) {
    size_t tail = tail_of(head, span);
    if (tail > 0 &&
        !(is_worth_purging(span, tail) && exceed(tail) && purge(arena_address(head) + span, tail))) {
        atomic_fetch_add_explicit(&tails.bytes, (int64_t)tail, memory_order_relaxed);
        make_dirty(head);
    }
}

void tails_settle(int64_t *later) {
    atomic_fetch_add_explicit(&tails.bytes, *later, memory_order_relaxed);
    *later = 0;
}

void tails_change(struct slab *head, size_t had, size_t span, int64_t *later) {
    size_t tail = tail_of(head, span);
    bool was_dirty = make_clean(head);
    arena_set_span(head, span); /* not before: whoever purges the tail counts it by the span */
    if (was_dirty && tail > 0 && !(is_worth_purging(span, tail) && exceed(tail))) {
        *later += (int64_t)had - (int64_t)span;
        if (*later > LATER_MOST_BYTES || *later < -LATER_MOST_BYTES) {
            tails_settle(later);
        }
        make_dirty(head);
        return;
    }
    if (was_dirty) {
        atomic_fetch_sub_explicit(&tails.bytes, (int64_t)tail_of(head, had), memory_order_relaxed);
    }
    tails_add(head, span);
}

bool tails_remove(struct slab *head, size_t span) {
    bool was_dirty = make_clean(head);
    if (was_dirty) {
        atomic_fetch_sub_explicit(&tails.bytes, (int64_t)tail_of(head, span), memory_order_relaxed);
    }
    return was_dirty;
}

/* Of a step of a walk. */
struct claimed {
    struct slab *heads[ARENA_HOLES_MOST];
    struct iovec ranges[ARENA_HOLES_MOST];
    size_t count, most;
    bool all;      /* not just those that are worth it */
    bool huge_too; /* also those on huge pages */
};

/* Arena lock held. */
static void claim_tail(const struct piece *piece, void *context) {
    struct claimed *claimed = context;
    struct slab *head = piece->head;
    /* relaxed: the arena's lock keeps the run what it is, but for its block's thread */
    uint8_t state = atomic_load_explicit(&head->state, memory_order_relaxed);
    bool in_large_lane = (piece->kind == PIECE_LARGE || piece->kind == PIECE_DIRTY) &&
                         (state == SLAB_LARGE || state == SLAB_KEPT) && !arena_run_is_huge(head);
    uint8_t dirty = TAIL_DIRTY;
    if (!in_large_lane || claimed->count == claimed->most || claimed->count == ARENA_HOLES_MOST ||
        atomic_load_explicit(&head->tail, memory_order_relaxed) != TAIL_DIRTY ||
        (!claimed->all && !is_worth_purging(arena_span(head), tail_of(head, arena_span(head)))) ||
        (!claimed->huge_too && dense_is_huge(piece->address)) ||
        /* acquire pairs with the release in make_dirty */
        !atomic_compare_exchange_strong_explicit(&head->tail, &dirty, TAIL_PURGED, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return;
    }
    size_t span = arena_span(head);
    claimed->heads[claimed->count] = head;
    claimed->ranges[claimed->count] = (struct iovec){(void *)(piece->address + span), tail_of(head, span)};
    claimed->count++;
}

/* Returns the tails that the OS has taken. */
static size_t purge_claimed(const struct claimed *claimed) {
    bool done[ARENA_HOLES_MOST];
    size_t purged = 0;
    if (claimed->count > 0) {
        arena_purge_holes(claimed->ranges, claimed->count, done);
    }
    for (size_t i = 0; i < claimed->count; i++) {
        if (done[i]) {
            purged++;
            atomic_fetch_sub_explicit(&tails.bytes, (int64_t)claimed->ranges[i].iov_len,
                                      memory_order_relaxed);
        }
        /* release pairs with the acquire in make_clean */
        atomic_store_explicit(&claimed->heads[i]->tail, done[i] ? TAIL_CLEAN : TAIL_DIRTY,
                              memory_order_release);
    }
    return purged;
}

/* A fork waits for the end of a step: it must not come while a tail is being purged. */
static bool purge_step(struct walk *walk, size_t most, bool all, size_t *purged) {
    struct claimed claimed = {.count = 0, .most = most, .all = all, .huge_too = all || exceed_by_far(0)};
    const struct walk_visitor visitor = {.visit = claim_tail, .context = &claimed};
    lock_acquire(&arena.lock);
    arena_let_waiters_pass();
    arena_begin_purging();
    lock_release(&arena.lock);
    bool more = arena_walk_step(walk, &visitor);
    *purged += purge_claimed(&claimed);
    lock_acquire(&arena.lock);
    arena_end_purging();
    lock_release(&arena.lock);
    return more;
}

/* The last round, from the lowest address to the highest, has found nothing to purge: the tails that are left
 * are small, or on huge pages. */
static struct backoff in_vain;
/* Of the round that is under way, by whichever threads: where it goes on, and whether it has purged anything.
 * relaxed, both: hints */
static _Atomic uintptr_t round_at;
static _Atomic bool round_purged;

bool tails_exceed(void) {
    return UNLIKELY(exceed(0)) && !backoff_holds(&in_vain);
}

static void end_round(void) {
    if (atomic_exchange_explicit(&round_purged, false, memory_order_relaxed)) {
        backoff_end(&in_vain);
    } else {
        backoff_begin(&in_vain);
    }
    atomic_store_explicit(&round_at, 0, memory_order_relaxed);
}

COLD bool tails_purge_excess(size_t most) {
    if (!tails_exceed()) {
        return false;
    }
    struct walk walk = {atomic_load_explicit(&round_at, memory_order_relaxed)};
    size_t purged = 0;
    bool more = true;
    for (size_t steps = 0; more && steps < most && purged < most && exceed(0); steps++) {
        more = purge_step(&walk, most - purged, false, &purged);
    }
    if (purged > 0) {
        atomic_store_explicit(&round_purged, true, memory_order_relaxed);
    }
    if (more) {
        atomic_store_explicit(&round_at, walk.at, memory_order_relaxed);
    } else {
        end_round();
    }
    return tails_exceed();
}

RARE void tails_purge_all(void) {
    struct walk walk = {0};
    size_t purged = 0;
    while (purge_step(&walk, SIZE_MAX, true, &purged)) {
    }
}
