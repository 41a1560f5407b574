/* Parcels: blocks that other threads freed, brought to their owner by the hundred.
 *
 * A thread that frees what another one allocated collects such blocks (remote.c). When it has many of one
 * owner, it leaves them in a parcel with that owner, which puts them into its magazines when one of these is
 * empty: no bitmap is written and read again, and no line of a slab goes back and forth. There are few
 * parcels, so that what lies in them is bounded; where none is left, or the owner has ended, blocks go to
 * their slabs. So they do when the owner lets a parcel lie: blocks in it may pin a slab each. The background
 * thread looks after that, and where there is none, there are no parcels.
 *
 * A parcel is claimed by one thread at a time, to fill it or to empty it, and posted in between. Nobody waits
 * for anybody: a sender that finds none takes the other way, and a parcel that is posted may be taken by any
 * thread.
 */
#include "heap/parcel.h"

#include "arena/decay.h"
#include "heap/flush.h"
#include "heap/heap_table.h"
#include "heap/slack.h"

#include <string.h>

/* A parcel of `bytes` is one of the first PARCELS_BYTES / bytes of its heap, so that large ones find fewer
 * places. */
#define PARCELS_BYTES ((size_t)1 << 20)

/* Fewer than MANY_BLOCKS blocks are worth a parcel only if they are FEW_BLOCKS_BYTES together, and where the
 * owner has use for them: one that goes from size to size would get those of the last size, which keep their
 * slabs until it opens them. After a parcel that it had no use for, LEFT_OUT of these are not sent. */
#define MANY_BLOCKS 32
#define FEW_BLOCKS_BYTES ((size_t)32 << 10)
#define LEFT_OUT 16

/* Blocks that are smaller, on average, may each be the last in a page: where more is free in slabs than may
 * be, none are sent, and those that were go back: a MiB in parcels may keep sixteen MiB of pages and more. */
#define SMALL_BYTES ((size_t)1 << 10)

/* Whether `n` blocks of together `bytes` are to be sent in a parcel. */
static bool is_worth_it(struct heap *to, size_t n, size_t bytes) {
    if (n >= MANY_BLOCKS) {
        return true;
    }
    /* relaxed, both: others may count down at the same time, and one parcel more or less is all the same */
    uint32_t left_out = atomic_load_explicit(&to->parcels_left_out, memory_order_relaxed);
    if (left_out > 0) {
        atomic_store_explicit(&to->parcels_left_out, left_out - 1, memory_order_relaxed);
    }
    return left_out == 0 && bytes >= FEW_BLOCKS_BYTES;
}

/* Of a parcel's `n` blocks, `left` found no room in the owner's magazines: decides whether parcels of few
 * blocks are sent next. */
static void note_use(struct heap *heap, size_t n, size_t left) {
    if (n < MANY_BLOCKS) {
        /* relaxed: as in is_worth_it */
        atomic_store_explicit(&heap->parcels_left_out, left > n / 2 ? LEFT_OUT : 0, memory_order_relaxed);
    }
}

/* Claims a parcel among the first `among` for the caller to fill; PARCELS if there is none. */
static unsigned claim(struct heap *heap, unsigned among) {
    /* relaxed: a first look */
    uint32_t claimed = atomic_load_explicit(&heap->parcels_claimed, memory_order_relaxed);
    while ((~claimed & bits32_below(among)) != 0) {
        unsigned parcel = bit_lowest(~claimed);
        /* acquire pairs with the release in let_go and parcels_reopen: what was in the parcel has been read,
         * or its memory purged */
        if (atomic_compare_exchange_weak_explicit(&heap->parcels_claimed, &claimed,
                                                  claimed | (uint32_t)1 << parcel, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return parcel;
        }
    }
    return PARCELS;
}

/* Ends a claim, so that the parcel can be filled again. release pairs with the acquire in claim and
 * parcels_close: the caller has read what was in it */
static void let_go(struct heap *heap, unsigned parcel) {
    atomic_fetch_and_explicit(&heap->parcels_claimed, ~((uint32_t)1 << parcel), memory_order_release);
}

/* Takes a posted parcel, whose claim is the caller's from now on; false if another thread was faster. */
static bool take(struct heap *heap, unsigned parcel) {
    uint32_t bit = (uint32_t)1 << parcel;
    /* acquire within it pairs with the release in parcel_send; seq_cst: see there */
    return (atomic_fetch_and_explicit(&heap->parcels_posted, ~bit, memory_order_seq_cst) & bit) != 0;
}

bool parcel_send(struct heap *to, void *const *blocks, size_t n, size_t bytes) {
    /* relaxed: verified below, by a seq_cst load */
    if (atomic_load_explicit(&to->state, memory_order_relaxed) != HEAP_ACTIVE || !decay_is_on() ||
        !is_worth_it(to, n, bytes)) {
        return false;
    }
    if (bytes < n * SMALL_BYTES && slack_exceeds()) {
        (void)parcels_return(NULL, to);
        return false;
    }
    unsigned among = (unsigned)max_size(min_size(PARCELS_BYTES / bytes, PARCELS), 1);
    unsigned parcel = claim(to, among);
    if (parcel == PARCELS) {
        return false;
    }
    struct parcel *filled = &to->parcels[parcel];
    memcpy(filled->blocks, blocks, n * sizeof *blocks);
    filled->count = (uint32_t)n;
    /* Release within it pairs with the acquire in take. seq_cst, as are the loads below and, in
     * abandoned_push and decay.c, the stores after which the parcels are emptied: either that finds this one,
     * or this thread sees that nobody will come for it. It may be another thread's parcel by then. */
    atomic_fetch_or_explicit(&to->parcels_posted, (uint32_t)1 << parcel, memory_order_seq_cst);
    if (UNLIKELY(atomic_load_explicit(&to->state, memory_order_seq_cst) != HEAP_ACTIVE || !decay_is_on())) {
        parcels_return(NULL, to);
    }
    return true;
}

/* Whether the magazine is to get one more block. It gets no more than half full: what it has too many of can
 * serve other sizes once it is in its slabs. */
static inline bool has_room(const struct magazine *m) {
    return 2 * (uintptr_t)m->top < (uintptr_t)m->base + (uintptr_t)m->end;
}

/* Puts the blocks of the parcel that find room in the heap's magazines there, the others into `rest`: their
 * slab may be another's by now, or nobody's, which is misuse. Gives the number of the latter. */
static size_t sort_out(struct heap *heap, const struct parcel *parcel, void **rest) {
    size_t left = 0;
    for (size_t i = 0, n = parcel->count; i < n; i++) {
        void *block = parcel->blocks[i];
        uint32_t offset = page_map_get(block) ^ heap->tag; /* as on the fast path of free */
        struct magazine *m = (struct magazine *)(void *)((char *)heap + offset);
        bool own = offset < sizeof heap->magazines;
        if (LIKELY(own) && LIKELY(has_room(m))) {
            *m->top++ = block;
            continue;
        }
        rest[left++] = block;
        if (own) {
            m->overflowed = true;
        }
    }
    return left;
}

/* The next posted parcel, in turns, so that none is left lying because others are filled again. */
static unsigned next_of(struct heap *heap, uint32_t posted) {
    uint32_t later = posted & ~bits32_below(heap->parcel_opened + 1);
    heap->parcel_opened = bit_lowest(later != 0 ? later : posted);
    return heap->parcel_opened;
}

size_t parcels_open(struct heap *heap, const struct magazine *wanted) {
    size_t n = 0;
    /* relaxed: take acquires */
    uint32_t posted = atomic_load_explicit(&heap->parcels_posted, memory_order_relaxed);
    while (posted != 0) {
        unsigned parcel = next_of(heap, posted);
        posted &= ~((uint32_t)1 << parcel);
        if (take(heap, parcel)) {
            void *rest[REMOTE_BLOCKS];
            size_t sent = heap->parcels[parcel].count;
            size_t left = sort_out(heap, &heap->parcels[parcel], rest);
            note_use(heap, sent, left);
            n += sent - left;
            let_go(heap, parcel);
            heap_return_blocks(heap, rest, left);
        }
        if (!has_room(wanted)) {
            break; /* those that are left are cheaper to open later than to return blocks to their slabs */
        }
    }
    return n;
}

size_t parcels_return(struct heap *self, struct heap *heap) {
    size_t n = 0;
    /* seq_cst: see parcel_send */
    uint32_t posted = atomic_load_explicit(&heap->parcels_posted, memory_order_seq_cst);
    for (; posted != 0; posted &= posted - 1) {
        unsigned parcel = bit_lowest(posted);
        if (take(heap, parcel)) {
            heap_return_blocks(self, heap->parcels[parcel].blocks, heap->parcels[parcel].count);
            n += heap->parcels[parcel].count;
            let_go(heap, parcel);
        }
    }
    return n;
}

bool parcels_look_after(void) {
    bool more = false;
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        /* relaxed: a guess is enough */
        uint64_t refills = atomic_load_explicit(&heap->counters.refills, memory_order_relaxed);
        if (parcels_waiting(heap)) {
            more = true;
            if (heap->refills_seen == refills) {
                parcels_return(NULL, heap);
            }
        }
        heap->refills_seen = refills;
    }
    return more;
}

void parcels_return_all(void) {
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        parcels_return(NULL, heap_by_id(id));
    }
}

bool parcels_close(struct heap *heap) {
    uint32_t none = 0;
    /* acquire pairs with the release in let_go: what was in the parcels has been read */
    return atomic_compare_exchange_strong_explicit(&heap->parcels_claimed, &none, bits32_below(PARCELS),
                                                   memory_order_acquire, memory_order_relaxed);
}

void parcels_reopen(struct heap *heap) {
    /* release pairs with the acquire in claim: the memory has been purged */
    atomic_store_explicit(&heap->parcels_claimed, 0, memory_order_release);
}

void parcels_settle_after_fork(struct heap *heap) {
    /* relaxed: there is one thread. What lost threads had claimed and not posted is given up, as is what they
     * had in their magazines. */
    atomic_store_explicit(&heap->parcels_claimed,
                          atomic_load_explicit(&heap->parcels_posted, memory_order_relaxed),
                          memory_order_relaxed);
}
