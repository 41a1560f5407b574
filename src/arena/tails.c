#include "arena/tails.h"

#include "arena/arena.h"
#include "arena/bound.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "os/os.h"

#include <stdatomic.h>

/* All tails may hold so many times what may stay resident of free memory: where blocks of one slab to three
 * come in all sizes, a quarter of what they take is in tails, and they would lose pages and touch them again
 * all the time. */
#define MOST_TIMES 2
/* While tails hold no more than this part of what may stay resident of free memory, new blocks may be
 * resident throughout. */
#define AHEAD_PART 2
/* Smaller tails are not worth a system call, nor is one that is a smaller part of its block. */
#define WORTH_BYTES ((size_t)4 * OS_PAGE_BYTES)
#define WORTH_PART 8

/* What tails_change gathers before it changes the sum: threads that did that all the time would wait for each
 * other, and so much more or less in each does not matter. */
#define LATER_MOST_BYTES ((int64_t)128 << 10)

/* Bytes of all tails that may be resident. relaxed everywhere: a sum that orders nothing */
static struct { _Alignas(2 * CACHE_LINE_BYTES) _Atomic int64_t bytes; } tails;

/* The sum with `tail` more. */
static int64_t with(size_t tail) {
    return atomic_load_explicit(&tails.bytes, memory_order_relaxed) + (int64_t)tail;
}

bool tails_allow(size_t span) {
    return with(round_up(span, SLAB_BYTES) - span) <= (int64_t)arena_share_bytes() / AHEAD_PART;
}

static bool is_worth_purging(size_t span, size_t tail) {
    return tail >= WORTH_BYTES && tail >= span / WORTH_PART &&
           with(tail) > MOST_TIMES * (int64_t)arena_share_bytes();
}

/* Gives the pages of a tail back, unless they are a part of a huge page. False if they stay. */
static bool purge(uintptr_t start, size_t bytes) {
    lock_acquire(&arena.lock);
    bool huge = dense_is_huge(start);
    lock_release(&arena.lock);
    bool done = false;
    if (!huge) {
        struct iovec tail = {(void *)start, bytes};
        arena_purge_holes(&tail, 1, &done);
    }
    return done;
}

void tails_add(struct slab *head, size_t span) {
    size_t tail = head->run_slabs * SLAB_BYTES - span;
    if (tail > 0 && !(is_worth_purging(span, tail) && purge(arena_address(head) + span, tail))) {
        head->tail_dirty = true;
        atomic_fetch_add_explicit(&tails.bytes, (int64_t)tail, memory_order_relaxed);
    }
}

void tails_change(struct slab *head, size_t had, size_t span, int64_t *later) {
    size_t tail = head->run_slabs * SLAB_BYTES - span;
    if (head->tail_dirty && tail > 0 && !is_worth_purging(span, tail)) {
        *later += (int64_t)had - (int64_t)span;
        if (*later > LATER_MOST_BYTES || *later < -LATER_MOST_BYTES) {
            atomic_fetch_add_explicit(&tails.bytes, *later, memory_order_relaxed);
            *later = 0;
        }
    } else {
        tails_remove(head, had);
        tails_add(head, span);
    }
}

void tails_remove(struct slab *head, size_t span) {
    if (head->tail_dirty) {
        head->tail_dirty = false;
        size_t tail = head->run_slabs * SLAB_BYTES - span;
        atomic_fetch_sub_explicit(&tails.bytes, (int64_t)tail, memory_order_relaxed);
    }
}
