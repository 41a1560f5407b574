#include "heap/registry.h"

#include "arena/tails.h"
#include "heap/bins.h"
#include "heap/cached.h"
#include "heap/flush_all.h"
#include "heap/fresh.h"
#include "heap/parcel.h"
#include "heap/remote.h"
#include "heap/slack.h"
#include "heap/stock.h"
#include "os/os.h"
#include "os/report.h"

#include <string.h>

/* Abandoned heaps that keep their current slabs of the tiny lane, at most: programs that start thread after
 * thread would otherwise make and release a slab for each class each time. */
#define WARM_HEAPS 4
/* Heaps that may have been abandoned after one that a thread wants, for the thread to get it. */
#define HEIRS_WAITED_FOR 16
/* Heaps that one call of heap_trim_abandoned trims, at most. */
#define TRIMS_MOST 64

static struct lock lock;         /* protects the lists of abandoned heaps and the making of ids */
static struct heap *warm, *cold; /* abandoned heaps; warm ones are taken first */
static unsigned warm_count;
static uint64_t ever_abandoned; /* heaps */
static uint64_t comings;        /* heaps given to threads, and put into lists, so far; under the lock */
/* Heaps in both lists. relaxed everywhere: written under the lock, a hint without it */
static _Atomic uint32_t abandoned_count;

SELDOM struct counters counters_of_no_heap;

void registry_lock(void) {
    lock_acquire(&lock);
}

void registry_unlock(void) {
    lock_release(&lock);
}

/* Puts the heap into one of the lists. Lock held. Where there are other threads, the caller then returns what
 * is in its parcels. */
static void abandoned_push(struct heap *heap, struct heap **list) {
    /* seq_cst: pairs with the loads of the state in parcel_send: a sender sees this, or parcels_return
     * afterwards sees its parcel */
    atomic_store_explicit(&heap->state, HEAP_ABANDONED, memory_order_seq_cst);
    heap->next_abandoned = *list;
    heap->abandoned_link = list;
    if (*list != NULL) {
        (*list)->abandoned_link = &heap->next_abandoned;
    }
    *list = heap;
    comings++;
    heap->warm = list == &warm;
    warm_count += heap->warm;
    atomic_store_explicit(&abandoned_count, atomic_load_explicit(&abandoned_count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void unlink_abandoned(struct heap *heap) {
    *heap->abandoned_link = heap->next_abandoned;
    if (heap->next_abandoned != NULL) {
        heap->next_abandoned->abandoned_link = heap->abandoned_link;
    }
    heap->next_abandoned = NULL;
    warm_count -= heap->warm;
    atomic_store_explicit(&abandoned_count, atomic_load_explicit(&abandoned_count, memory_order_relaxed) - 1,
                          memory_order_relaxed);
    /* relaxed: a hint; whoever sees it late sends no parcel, or takes slabs under the heap's lock */
    atomic_store_explicit(&heap->state, HEAP_ACTIVE, memory_order_relaxed);
}

bool heap_is_abandoned(uint32_t id) {
    const struct heap *heap = heap_by_id(id);
    /* relaxed: a hint */
    return heap != NULL && atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ABANDONED;
}

/* Takes the heap that a thread is to get off its list: the wanted one, a warm one or any; NULL if there is
 * none. Lock held. */
static struct heap *take_abandoned(uint32_t wanted) {
    struct heap *heap = heap_is_abandoned(wanted) ? heap_by_id(wanted) : NULL;
    if (heap == NULL || ever_abandoned - heap->left_as > HEIRS_WAITED_FOR) {
        heap = warm != NULL ? warm : cold;
    }
    if (heap != NULL) {
        unlink_abandoned(heap);
    }
    return heap;
}

COLD struct heap *heap_make_for_samples(void) {
    lock_acquire(&lock);
    struct heap *heap = heap_make(HEAP_OF_SAMPLES);
    lock_release(&lock);
    return heap;
}

struct heap *heap_acquire(heap_slot *slot, uint32_t patience, uint32_t wanted) {
    lock_acquire(&lock);
    struct heap *heap;
    /* relaxed: the lock orders it; a thread that was about to lose its heap has got it back meanwhile */
    if (slot != NULL && (heap = atomic_load_explicit(slot, memory_order_relaxed)) != &heap_of_no_thread) {
        heap_enter(heap);
        lock_release(&lock);
        return heap;
    }
    heap = take_abandoned(wanted);
    comings++;
    if (heap == NULL) {
        heap = heap_make(HEAP_ACTIVE);
    }
    if (heap != NULL) {
        heap->untrimmed = true;
        heap->owner = (struct owner){.slot = slot, .thread = os_thread_id(), .patience = patience};
        /* Entered from the first moment at which it might be taken away; relaxed: see heap_enter */
        atomic_store_explicit(&heap->busy, 1, memory_order_relaxed);
        if (slot != NULL) {
            atomic_store_explicit(slot, heap, memory_order_relaxed); /* relaxed: its own */
        }
    }
    lock_release(&lock);
    if (heap == NULL) {
        report_fallback(FALLBACK_NO_HEAP, HEAP_BYTES);
    }
    return heap;
}

COLD void heap_keep(struct heap *heap) {
    lock_acquire(&lock);
    heap->owner.slot = NULL;
    lock_release(&lock);
}

struct heap *heap_disown(heap_slot *slot) {
    lock_acquire(&lock);
    /* relaxed, both: its own; others change it under the lock */
    struct heap *heap = atomic_load_explicit(slot, memory_order_relaxed);
    if (heap == &heap_of_no_thread) {
        heap = NULL;
    } else {
        heap->owner.slot = NULL;
        atomic_store_explicit(slot, &heap_of_no_thread, memory_order_relaxed);
    }
    lock_release(&lock);
    return heap;
}

/* Adds what the heap has counted for itself to what counts for all. */
COLD static void settle_counts(struct heap *heap) {
    slack_settle(heap);
    fresh_settle(heap);
    tails_settle(&heap->runs.tails_later_bytes);
    cached_set(heap, 0);
}

COLD void heap_retire_slabs_from(struct heap *heap, unsigned first_class) {
    for (unsigned w = first_class / 64; w < sizeof heap->used_bins / sizeof heap->used_bins[0]; w++) {
        uint64_t below = w == first_class / 64 ? bits_below(first_class % 64) : 0;
        for (uint64_t bits = heap->used_bins[w] & ~below; bits != 0; bits &= bits - 1) {
            bin_retire(heap, w * 64 + bit_lowest(bits));
        }
    }
    settle_counts(heap);
}

void heap_retire_slabs(struct heap *heap) {
    heap_retire_slabs_from(heap, 0);
}

static char *page_from(const void *address) {
    return (char *)round_up((uintptr_t)address, OS_PAGE_BYTES);
}

static void purge_between(char *from, char *to) {
    if (from < to) {
        os_purge(from, (size_t)(to - from));
    }
}

/* Of a heap whose magazines are, or are to be, zero. */
static void forget_arrays(struct heap *heap) {
    heap->slots_free = heap_first_slot(heap);
    heap->room_bytes = 0;
    heap->taken_bytes = 0;
}

/* Gives back the pages of a heap that is in no list and whose magazines and stocks are empty: those of the
 * magazines, and of their arrays, which new ones replace when they are needed. So go those of what lies
 * between, unless other threads need it: slabs may be in the lists, and a parcel on its way. */
static void trim(struct heap *heap) {
    char *end = page_from(heap->slots_free);
    size_t alone = round_down(sizeof heap->magazines, OS_PAGE_BYTES); /* on pages with nothing else */
    if (!os_purge(heap, alone)) {
        memset(heap->magazines, 0, alone);
    }
    memset((char *)heap->magazines + alone, 0, sizeof heap->magazines - alone);
    forget_arrays(heap);
    bool closed = parcels_close(heap);
    lock_acquire(&heap->lock); /* nobody adds to the lists meanwhile */
    bin_drain_inbox(heap);
    /* relaxed: under the lock */
    bool empty = atomic_load_explicit(&heap->partial_slabs, memory_order_relaxed) == 0;
    void *unneeded = empty ? (void *)heap->bins : (void *)heap->remote;
    purge_between(page_from(closed ? unneeded : (void *)heap_first_slot(heap)), end);
    lock_release(&heap->lock);
    if (closed) {
        parcels_reopen(heap);
    }
    heap->untrimmed = false;
}

/* Whether a heap is trimmed changes under the lock: a guess. */
COLD __attribute__((no_sanitize("thread"))) size_t heap_struct_bytes(const struct heap *heap) {
    size_t whole = round_up(offsetof(struct heap, parcels), OS_PAGE_BYTES);
    size_t trimmed = round_up(offsetof(struct heap, bins), OS_PAGE_BYTES) -
                     round_down(sizeof heap->magazines, OS_PAGE_BYTES);
    /* relaxed: a guess */
    bool abandoned = atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ABANDONED;
    return abandoned && !*(const volatile bool *)&heap->untrimmed ? trimmed : whole;
}

/* Takes the warm heap that was abandoned first off its list; there is one. Lock held. */
static struct heap *pop_oldest_warm(void) {
    struct heap *heap = warm;
    while (heap->next_abandoned != NULL) {
        heap = heap->next_abandoned;
    }
    unlink_abandoned(heap);
    return heap;
}

/* Puts a heap into the list of cold ones. */
static void push_cold(struct heap *heap) {
    lock_acquire(&lock);
    abandoned_push(heap, &cold);
    lock_release(&lock);
    parcels_return(NULL, heap); /* those that came while it was in no list: from now on none comes */
}

/* Takes cold heaps that can be trimmed off their list, TRIMS_MOST at most; returns how many. */
static unsigned pop_untrimmed(struct heap *heaps[TRIMS_MOST]) {
    unsigned count = 0;
    lock_acquire(&lock);
    for (struct heap *heap = cold, *next; heap != NULL && count < TRIMS_MOST; heap = next) {
        next = heap->next_abandoned;
        if (heap->untrimmed) {
            unlink_abandoned(heap);
            heaps[count++] = heap;
        }
    }
    lock_release(&lock);
    return count;
}

COLD bool heap_trim_abandoned(void) {
    struct heap *heaps[TRIMS_MOST];
    unsigned count = pop_untrimmed(heaps);
    for (unsigned i = 0; i < count; i++) {
        /* In a forked child, a heap that has lost its thread still has both. */
        stocks_return(NULL, heaps[i]);
        heap_retire_slabs(heaps[i]);
        trim(heaps[i]); /* without the lock: system calls */
        push_cold(heaps[i]);
    }
    return count == TRIMS_MOST;
}

void heap_abandon(struct heap *heap, bool may_stay_warm) {
    heap_flush_all(heap, may_stay_warm ? FLUSH_THREAD_EXIT : FLUSH_RECLAIM);
    heap_retire_slabs_from(heap, may_stay_warm ? TINY_CLASSES : 0);
    heap->unborrowed_bytes = 0;
    if (!may_stay_warm) {
        trim(heap);
    }
    lock_acquire(&lock);
    /* This heap stays warm, because the thread that comes for what it holds comes soon: the oldest cools
     * instead. */
    struct heap *cools = may_stay_warm && warm_count == WARM_HEAPS ? pop_oldest_warm() : NULL;
    heap->left_as = ++ever_abandoned;
    abandoned_push(heap, may_stay_warm ? &warm : &cold);
    lock_release(&lock);
    parcels_return(NULL, heap);
    if (cools != NULL) {
        heap_retire_slabs(cools);
        push_cold(cools);
    }
}

COLD void heap_retire_abandoned(void) {
    struct heap *const *const lists[] = {&cold, &warm};
    lock_acquire(&lock);
    for (int i = 0; i < 2; i++) {
        for (struct heap *heap = *lists[i]; heap != NULL; heap = heap->next_abandoned) {
            heap_retire_slabs(heap);
        }
    }
    lock_release(&lock);
}

COLD bool heap_cool_abandoned(void) {
    /* Callers come one at a time. */
    static uint64_t seen;
    static bool cool;
    lock_acquire(&lock);
    bool quiet = comings == seen;
    bool any = warm != NULL;
    seen = comings;
    lock_release(&lock);
    if (quiet && any && !cool) {
        heap_retire_abandoned();
    }
    cool = quiet;
    return any && !cool;
}

uint32_t heap_abandoned_count(void) {
    return atomic_load_explicit(&abandoned_count, memory_order_relaxed);
}

RARE size_t heap_count_in_use(void) {
    uint32_t abandoned = heap_abandoned_count();
    uint32_t limit = heap_id_limit();
    return limit > abandoned ? limit - abandoned : 1;
}

RARE void heap_lock_for_fork(void) {
    lock_acquire(&lock);
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        lock_acquire(&heap_by_id(id)->lock);
    }
}

/* For a heap whose thread is lost, in a forked child. The thread may have been anywhere, in the middle of
 * growing a magazine or of a flush, too: what it held there might be free already and is given up. The heap's
 * slabs serve the next thread. */
static void clear_after_fork(struct heap *heap) {
    memset(heap->magazines, 0, sizeof heap->magazines);
    forget_arrays(heap);
    heap->owner.slot = NULL;
    atomic_store_explicit(&heap->busy, 0, memory_order_relaxed); /* relaxed: there is one thread */
    heap_empty_remote(heap);
    for (unsigned c = 0; c < SIZE_CLASSES; c++) {
        bin_settle_after_fork(heap, c);
    }
    settle_counts(heap);
}

void heap_follow_into_child(struct heap *mine) {
    if (heap_by_id(mine->id) == mine) { /* not heap_of_no_thread */
        mine->owner.thread = os_thread_id();
    }
}

RARE void heap_unlock_after_fork(bool child, struct heap *mine) {
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        lock_end_fork(&heap->lock, child);
        if (child) {
            parcels_settle_after_fork(heap);
        }
        /* relaxed: in the child there is no other thread */
        if (child && heap != mine &&
            atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_ACTIVE) {
            clear_after_fork(heap);
            abandoned_push(heap, &cold);
        }
    }
    if (child) {
        heap_follow_into_child(mine);
        cached_follow_into_child(mine);
    }
    lock_end_fork(&lock, child);
}
