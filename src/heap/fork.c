#include "heap/fork.h"

#include "arena/arena.h"
#include "arena/decay.h"
#include "heap/alone.h"
#include "heap/collect.h"
#include "heap/event.h"
#include "heap/holes.h"
#include "heap/registry.h"
#include "heap/relief.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/shared_heap.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/cgroup.h"
#include "os/os.h"
#include "profile/files.h"
#include "profile/sample.h"

#include <pthread.h>

/* glibc's fork takes the lock of its list of streams after the handlers have run; a thread that holds
 * it may wait for a stream whose holder allocates. So it must come before our locks. It is recursive. */
extern __attribute__((weak)) void _IO_list_lock(void);
extern __attribute__((weak)) void _IO_list_unlock(void);
extern __attribute__((weak)) void _IO_list_resetlock(void);

/* What before_fork has found, for after_fork. */
enum found {
    LOCKED, /* by lock_all */
    /* There is no other thread to be locked out; the handler of a signal that came in the midst of malloc may
     * fork, and would wait for what it has interrupted. */
    ALONE,
    /* The same, and the library's thread waits for what the handler has interrupted: it does nothing, and is
     * in the midst of something. */
    INTERRUPTED,
};
/* relaxed everywhere: anything but LOCKED only where there is one thread */
static _Atomic uint32_t fork_found;

static uint32_t found(void) {
    return atomic_load_explicit(&fork_found, memory_order_relaxed);
}

static void note_found(uint32_t what) {
    atomic_store_explicit(&fork_found, what, memory_order_relaxed);
}

/* Takes the locks in the order in which they nest. */
static RARE void lock_all(void) {
    decay_prepare_for_fork();
    if (_IO_list_lock != NULL) {
        _IO_list_lock();
    }
    runtime_lock_for_fork();
    shared_heap_lock_for_fork();
    sampling_lock_for_fork();
    heap_lock_for_fork();
    arena_lock_for_fork();
    profile_lock_for_fork();
    options_lock_for_fork(); /* taken in events, too, with the shared heap's or the samples' held */
}

static RARE void unlock_all(bool child) {
    options_unlock_after_fork(child);
    profile_unlock_after_fork(child);
    arena_unlock_after_fork(child);
    heap_unlock_after_fork(child, thread_heap_now());
    sampling_unlock_after_fork(child);
    shared_heap_unlock_after_fork(child);
    runtime_unlock_after_fork(child);
    void (*end_list_lock)(void) = child ? _IO_list_resetlock : _IO_list_unlock;
    if (found() == LOCKED && end_list_lock != NULL) {
        end_list_lock();
    }
    files_after_fork(child);
    if (child) {
        holes_turn_lost_by_fork();
        relief_lock_lost_by_fork();
        heap_collect_lost_by_fork();
    }
}

/* Has the library's thread end, and none come before the fork is over, where the program has no others. */
static RARE uint32_t find(void) {
    if (option_number(OPTION_BACKGROUND_THREAD) == 1 && heap_is_alone_beside_library_thread()) {
        return decay_make_way() ? ALONE : INTERRUPTED;
    }
    return heap_is_alone() ? ALONE : LOCKED;
}

static void before_fork(void) {
    os_note_thread();
    note_found(heap_is_alone() && !decay_wants_thread() ? ALONE : find());
    if (found() == LOCKED) {
        lock_all();
    }
}

static void after_fork(bool child) {
    if (child) {
        os_note_process();
        cgroup_forget();
        holes_follow_into_child();
        sampling_follow_into_child();
    }
    if (found() == LOCKED || (child && found() == INTERRUPTED)) {
        unlock_all(child);
    } else if (child) {
        arena_follow_into_child();
        heap_follow_into_child(thread_heap_now());
    }
}

static void after_fork_in_parent(void) {
    after_fork(false);
}

static void after_fork_in_child(void) {
    after_fork(true);
    if (heap_child_listener != NULL) {
        heap_child_listener(found() != LOCKED);
    }
}

/* Handlers that are registered first run last before a fork and first after it, so that those of other
 * libraries may allocate. The shared library is initialised first of all (see CMakeLists.txt), a static
 * one by the first allocation. */
void fork_register_handlers(void) {
    static _Atomic bool registered;
    /* relaxed: only one thread may go on, and it needs nothing of the others */
    if (!atomic_exchange_explicit(&registered, true, memory_order_relaxed)) {
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
}
