/* Taking heaps from threads that sleep.
 *
 * A thread that waits for work holds what its magazines and its current slabs hold, for as long as it waits.
 * Nobody else may touch these: the fast paths use them without any synchronisation. But while a thread sleeps
 * in a system call that it made outside this library, it is not in the middle of a fast path, and the next
 * one begins by loading thread_heap. So: see that the thread sleeps; set its thread_heap to the heap of no
 * thread; see that it has been asleep all the time. If so, it will find that when it wakes (the switch to it
 * orders its loads behind our store), and the heap is ours; if not, the heap is put back, untouched.
 *
 * What might break that: a thread that sleeps inside this library says so (heap_enter); one that sleeps in
 * the handler of a signal that came in the middle of a fast path is known by what the signal left on its
 * stack; a child of vfork that runs on the thread's variables is known by the system call.
 */
#include "heap/thread.h"
#include "os/asleep.h"
#include "os/os.h"

#include <string.h>

/* At most so many looks are left out at a thread that was awake each time. */
#define WAIT_MOST 16

/* This library's code, or the whole program's where it is linked in. */
extern INTERNAL const char __ehdr_start[], _etext[];

static uintptr_t stack_end(const struct owner *owner) {
    /* libc puts a thread's variables at the end of its stack, but for the first thread. */
    return owner->thread == os_process_id() ? os_main_stack_end() : (uintptr_t)owner->slot;
}

/* Under the registry's lock. */
static bool detach(struct heap *heap) {
    struct owner *owner = &heap->owner;
    struct os_sleep before;
    struct os_sleep after;
    if (owner->slot == NULL || !os_asleep(owner->thread, &before)) {
        return false;
    }
    /* relaxed: the thread went to sleep after it wrote that */
    if (atomic_load_explicit(&heap->busy, memory_order_relaxed) != 0 ||
        os_interrupted_in(&before, stack_end(owner), (uintptr_t)__ehdr_start, (uintptr_t)_etext)) {
        return false;
    }
    /* seq_cst, and an exchange: done before the second look. Pairs with the thread's relaxed loads by way of
     * the switch that wakes it. */
    atomic_exchange_explicit(owner->slot, &heap_of_no_thread, memory_order_seq_cst);
    bool asleep = os_asleep(owner->thread, &after) && before.switches == after.switches &&
                  before.call == after.call && before.stack == after.stack;
    if (!asleep) {
        atomic_store_explicit(owner->slot, heap, memory_order_relaxed); /* it waits for the lock if it saw */
        return false;
    }
    owner->slot = NULL;
    return true;
}

bool heap_reclaim(struct heap *heap) {
    registry_lock();
    bool ours = detach(heap);
    registry_unlock();
    if (ours) {
        count(&heap->counters.reclaimed, 1);
        heap_abandon(heap, false);
    }
    return ours;
}

static uint64_t activity_of(const struct heap *heap) {
    const struct counters *c = &heap->counters;
    const _Atomic uint64_t *const looked_at[] = {&c->refills,      &c->flushes,     &c->remote_frees,
                                                 &c->large_allocs, &c->large_frees, &c->huge_frees};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) {
        sum += atomic_load_explicit(looked_at[i], memory_order_relaxed);
    }
    return sum;
}

/* Whether it is worth looking at the thread now, and `*more` if at all. */
static bool seems_idle(struct heap *heap, bool *more) {
    struct owner *owner = &heap->owner;
    bool idle = false;
    registry_lock();
    if (owner->slot != NULL) {
        uint64_t activity = activity_of(heap);
        if (activity != owner->activity) {
            owner->activity = activity;
            owner->wait = owner->waited = 0;
        } else if (owner->wait > 0) {
            owner->wait--;
        } else {
            idle = true;
            owner->waited = owner->waited < WAIT_MOST ? owner->waited * 2 + 1 : WAIT_MOST;
            owner->wait = owner->waited;
        }
        *more = *more || owner->waited < WAIT_MOST;
    }
    registry_unlock();
    return idle;
}

bool heap_reclaim_idle(void) {
    bool more = false;
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        if (seems_idle(heap, &more)) {
            heap_reclaim(heap);
        }
    }
    bool warm = heap_cool_abandoned();
    heap_trim_abandoned();
    return more || warm;
}

void heap_reclaim_restart(void) {
    registry_lock();
    for (uint32_t id = 1; id < heap_id_limit(); id++) {
        struct owner *owner = &heap_by_id(id)->owner;
        owner->wait = owner->waited = 0;
    }
    registry_unlock();
}
