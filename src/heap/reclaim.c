/* Taking heaps from threads that sleep.
 *
 * A thread that waits for work holds what its magazines and its current slabs hold, for as long as it waits.
 * Nobody else may touch these: the fast paths use them without any synchronisation. But while a thread sleeps
 * in a system call that it made outside this library, it is not in the middle of a fast path, and the next
 * one begins by loading thread_self.heap. So: see that the thread sleeps; set it to the heap of no
 * thread; see that it has been asleep all the time. If so, it will find that when it wakes (the switch to it
 * orders its loads behind our store), and the heap is ours; if not, the heap is put back, untouched.
 *
 * What might break that: a thread that sleeps inside this library says so (heap_enter); one that sleeps in
 * the handler of a signal, which may have come in the middle of a fast path, is known by what the signal left
 * on its stack; a child of vfork that runs on the thread's variables is known by the system call. Not known
 * is a handler that switches to another stack and sleeps there: RECLAIM is the option for programs that do
 * that.
 */
#include "heap/reclaim.h"

#include "arena/decay.h"
#include "heap/cached.h"
#include "heap/registry.h"
#include "options/options.h"
#include "os/asleep.h"
#include "os/environment.h"
#include "os/os.h"
#include "os/program.h"
#include "os/thread.h"

/* Looks that are left out at a thread that was awake each time, at most. */
#define WAIT_MOST 16
/* A thread that wakes up now and then, but does not come to its slabs, is idle after so many times the looks
 * that would do if it slept throughout. */
#define QUIET_LOOKS 4
/* Where all threads cache too much, so many looks that find a thread asleep will do, however often its heap
 * was missed before. */
#define PRESSED_LOOKS 48u

/* An address above the frames of the thread, whose slot `slot` is. */
static uintptr_t stack_end(int thread, const heap_slot *slot) {
    /* libc puts a thread's variables at the end of its stack, but for the first thread. */
    return thread == os_process_id() ? os_main_stack_end() : (uintptr_t)slot;
}

/* Takes the heap from the thread if that has been asleep since `before`; false if not. Registry's lock held,
 * which the owner needs to give the heap up: while it is the owner's, the slot exists. */
static bool detach(struct heap *heap, heap_slot *slot, int thread, const struct os_sleep *before) {
    struct owner *owner = &heap->owner;
    struct os_sleep after;
    /* relaxed, both: the thread went to sleep after it wrote that */
    if (owner->slot != slot || owner->thread != thread ||
        atomic_load_explicit(slot, memory_order_relaxed) != heap ||
        atomic_load_explicit(&heap->busy, memory_order_relaxed) != 0) {
        return false;
    }
    /* seq_cst, and an exchange: done before the second look. Pairs with the thread's relaxed loads by way of
     * the switch that wakes it. */
    atomic_exchange_explicit(slot, &heap_of_no_thread, memory_order_seq_cst);
    if (!os_asleep(thread, &after) || before->switches != after.switches || before->call != after.call ||
        before->stack != after.stack) {
        /* relaxed: a thread that saw the other value waits for the lock */
        atomic_store_explicit(slot, heap, memory_order_relaxed);
        return false;
    }
    owner->slot = NULL;
    return true;
}

bool heap_reclaim(struct heap *heap) {
    struct os_sleep before;
    registry_lock();
    heap_slot *slot = heap->owner.slot;
    int thread = heap->owner.thread;
    registry_unlock();
    if (slot == NULL || thread == os_thread_id() || !os_asleep(thread, &before) ||
        os_in_signal_handler(&before, stack_end(thread, slot))) {
        return false;
    }
    registry_lock();
    bool ours = detach(heap, slot, thread, &before);
    registry_unlock();
    if (ours) {
        count(&heap->counters.reclaimed, 1);
        heap_abandon(heap, false);
    }
    return ours;
}

/* Counts what the heap's owner did behind its fast paths. relaxed, all: a guess is enough */
static uint64_t activity_of(const struct heap *heap) {
    const struct counters *c = &heap->counters;
    const _Atomic uint64_t *const looked_at[] = {&c->refills,     &c->flushes,      &c->remote_frees,
                                                 &c->remote_kept, &c->large_allocs, &c->large_frees,
                                                 &c->huge_frees};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++) {
        sum += atomic_load_explicit(looked_at[i], memory_order_relaxed);
    }
    return sum;
}

/* Whether it is time to look at the heap's thread, `*thread`; `pressed` says that all cache too much, so that
 * it is even where the thread was awake each time. Sets `*more` if there is to be another look soon. */
static bool look_is_due(struct heap *heap, bool pressed, int *thread, bool *more) {
    struct owner *owner = &heap->owner;
    bool due = false;
    registry_lock();
    if (owner->slot != NULL) {
        uint64_t activity = activity_of(heap);
        if (activity != owner->activity) {
            owner->activity = activity;
            owner->idle = owner->quiet = owner->wait = owner->waited = 0;
        } else if (++owner->quiet < QUIET_LOOKS * owner->patience && owner->wait > 0 && !pressed) {
            owner->wait--;
        } else {
            *thread = owner->thread;
            due = true;
        }
        *more = *more || owner->waited < WAIT_MOST;
    }
    registry_unlock();
    return due;
}

/* The heap's thread does other work, or its heap cannot be taken although it sleeps: it has a handler or too
 * much to look through on its stack, or waits for a child. Registry's lock held. */
static void look_less_often(struct owner *owner) {
    owner->idle = 0;
    owner->waited = (uint32_t)min_size(owner->waited * 2u + 1, WAIT_MOST);
    owner->wait = owner->waited;
}

/* Whether the heap's thread is idle: it was not switched to once between several looks, as many as it has
 * patience for or, where all cache too much, PRESSED_LOOKS, or has not come to its slabs in many, where a few
 * blocks in its magazines can pin many slabs. One that is awake is looked at less and less often. */
static bool is_idle(struct heap *heap, int thread, bool pressed) {
    struct owner *owner = &heap->owner;
    uint64_t switches;
    bool known = os_switches(thread, &switches);
    uint32_t looks = pressed ? PRESSED_LOOKS : UINT32_MAX;
    bool idle = false;
    registry_lock();
    if (owner->quiet >= QUIET_LOOKS * owner->patience) {
        idle = true;
        owner->quiet = 0;
    } else if (known && switches == owner->switches) {
        idle = ++owner->idle >= min_size(owner->patience, looks);
    } else if (known && owner->switches == 0) {
        owner->switches = switches; /* the first look */
    } else {
        owner->switches = known ? switches : 0;
        look_less_often(owner);
    }
    registry_unlock();
    return idle;
}

/* Takes the heap from its thread if that is idle; true if it was taken. `pressed` and `*more` are as in
 * look_is_due. */
static bool reclaim_if_idle(struct heap *heap, bool pressed, bool *more) {
    int thread;
    bool idle = option_bool(OPTION_RECLAIM) && look_is_due(heap, pressed, &thread, more) &&
                is_idle(heap, thread, pressed);
    bool taken = idle && heap_reclaim(heap);
    if (idle && !taken && !os_is_running(thread)) {
        registry_lock();
        look_less_often(&heap->owner);
        registry_unlock();
    }
    return taken;
}

bool heap_reclaim_idle(void) {
    bool more = false;
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        (void)reclaim_if_idle(heap_by_id(id), false, &more);
    }
    bool warm = heap_cool_abandoned();
    heap_trim_abandoned();
    return more || warm;
}

RARE bool heap_reclaim_pressed(void) {
    bool any = false;
    bool more = false;
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        if (cached_in(heap) >= CACHED_STEP_BYTES && reclaim_if_idle(heap, true, &more)) {
            any = true;
        }
    }
    return any;
}

_Atomic bool heap_reclaim_asked;

void heap_reclaim_request(void) {
    bool later = !os_program_has_threads();
    if (atomic_load_explicit(&heap_reclaim_asked, memory_order_relaxed) != later) {
        atomic_store_explicit(&heap_reclaim_asked, later, memory_order_relaxed);
    }
    if (!later && option_bool(OPTION_RECLAIM) && !decay_is_on()) {
        decay_request();
    }
}

static RARE void wake_if_too_much(void) {
    /* One that is only just starting looks by itself. */
    if (decay_is_on() && option_bool(OPTION_RECLAIM) && cached_exceed_anew()) {
        os_thread_wake();
    }
}

void heap_reclaim_tell(struct heap *heap) {
    cached_tell(heap);
    heap_reclaim_request();
    if (cached_may_exceed()) {
        wake_if_too_much();
    }
}

int heap_some_thread(void) {
    int thread = 0;
    registry_lock();
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit() && thread == 0; id++) {
        const struct owner *owner = &heap_by_id(id)->owner;
        thread = owner->slot != NULL && owner->thread != os_process_id() ? owner->thread : 0;
    }
    registry_unlock();
    return thread;
}

void heap_reclaim_restart(void) {
    registry_lock();
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct owner *owner = &heap_by_id(id)->owner;
        owner->wait = owner->waited = 0;
    }
    registry_unlock();
}
