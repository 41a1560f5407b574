#include "heap/fork.h"

#include "arena/arena.h"
#include "arena/decay.h"
#include "heap/alone.h"
#include "heap/collect.h"
#include "heap/event.h"
#include "heap/holes.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "heap/sampling.h"
#include "heap/shared_heap.h"
#include "heap/slack.h"
#include "heap/thread.h"
#include "options/options.h"
#include "os/cgroup.h"
#include "os/os.h"
#include "os/thread.h"
#include "profile/files.h"
#include "profile/sample.h"

#include <pthread.h>

/* glibc's fork takes the lock of its list of streams after the handlers have run; a thread that holds
 * it may wait for a stream whose holder allocates. So it must come before our locks. It is recursive. */
extern __attribute__((weak)) void _IO_list_lock(void);
extern __attribute__((weak)) void _IO_list_unlock(void);
extern __attribute__((weak)) void _IO_list_resetlock(void);

/* What heap_is_alone said to before_fork, for after_fork. relaxed: it is true only where there is one
 * thread */
static _Atomic bool fork_is_alone;

static bool fork_has_no_locks(void) {
    return atomic_load_explicit(&fork_is_alone, memory_order_relaxed);
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
    if (end_list_lock != NULL) {
        end_list_lock();
    }
    files_after_fork(child);
    if (child) {
        holes_turn_lost_by_fork();
        slack_lock_lost_by_fork();
        heap_collect_lost_by_fork();
    }
}

/* Whether the process has no thread but the caller, once the library's has ended. Where that will not end, it
 * waits for a lock, and the caller, who is all there is beside it, has interrupted the holder. */
static RARE bool is_alone_without_library_thread(void) {
    bool may_end = !os_program_has_threads() && option_number(OPTION_BACKGROUND_THREAD) == 1;
    return may_end && (!decay_make_way() || heap_is_alone());
}

/* Takes no locks where there is no other thread to be locked out: the handler of a signal that came in the
 * midst of malloc may fork, and would wait for what it has interrupted. */
static void before_fork(void) {
    bool alone = heap_is_alone() || is_alone_without_library_thread();
    atomic_store_explicit(&fork_is_alone, alone, memory_order_relaxed);
    if (!alone) {
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
    if (!fork_has_no_locks()) {
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
        heap_child_listener(fork_has_no_locks());
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
