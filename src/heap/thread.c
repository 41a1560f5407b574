#include "heap/thread.h"

#include "arena/arena.h"
#include "arena/bound.h"
#include "arena/decay.h"
#include "heap/alone.h"
#include "heap/collect.h"
#include "heap/event.h"
#include "heap/flush.h"
#include "heap/foreign.h"
#include "heap/holes.h"
#include "heap/magazine.h"
#include "heap/parcel.h"
#include "heap/reclaim.h"
#include "heap/registry.h"
#include "heap/sampling.h"
#include "heap/slack.h"
#include "heap/stock.h"
#include "options/options.h"
#include "os/cgroup.h"
#include "os/os.h"
#include "os/report.h"
#include "os/thread.h"
#include "profile/sample.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* `common` puts it behind all else that starts as zero: it is only read, and so costs no page. */
__attribute__((common)) struct heap heap_of_no_thread;
_Thread_local
    __attribute__((tls_model("initial-exec"))) struct thread_self thread_self = {&heap_of_no_thread, 0};
static _Thread_local __attribute__((tls_model("initial-exec"))) bool thread_ended;

/* How often a heap was taken from the thread while it slept. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t thread_losses;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool thread_had_heap;
/* The id of the heap that it would rather have than another: of the last block of an ended thread's that it
 * freed before it had one. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t thread_wants;
/* Before it had one. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t thread_frees;

static struct lock start_lock;
/* release when all is set up pairs with the acquire in runtime_start */
static _Atomic bool started;
static bool libc_forced;
static bool has_key;
static pthread_key_t key;

static struct lock shared_lock;
static struct heap *shared_heap;

static void end_thread(void *value) {
    (void)value; /* its first heap, which may have been another thread's for long */
    thread_ended = true;
    struct heap *heap = heap_disown(&thread_self.heap);
    if (heap != NULL) {
        heap_abandon(heap, true);
    }
}

static void register_fork_handlers(void);

/* With so many threads, what those hold that sleep is worth a thread that looks after it. */
#define THREADS_WORTH_A_LOOK 8

#define SLEEP_MOST_MS 250
/* Work on holes in a period: of the background thread some 20 ms, and in a program without one 0.1 ms of
 * whoever frees. */
#define HOLES_UNITS 200000
#define HOLES_UNITS_IN_PASSING 1000
/* Blocks of stocks: some 1.3 ms in each period, or an eighth of them if all are of the size of a pointer; and
 * 0.3 ms with what is given back. */
#define STOCKS_IN_PASSING ((size_t)65536)
#define STOCKS_IN_PASSING_PART (8 * sizeof(void *))
#define STOCKS_RELIEVED ((size_t)16384)

static void purge_in_passing(void) {
    int64_t stocked = arena_stocked();
    stocks_look_after(
        max_size(STOCKS_IN_PASSING, stocked > 0 ? (size_t)stocked / STOCKS_IN_PASSING_PART : 0));
    (void)holes_purge_idle(HOLES_UNITS_IN_PASSING);
}

static bool relieve(void) {
    if (arena_stock_room() < 0) {
        stocks_relieve(STOCKS_RELIEVED);
    }
    return slack_relieve();
}

/* Sleeps for a period of the decay; false if the program's credentials have changed meanwhile. In short
 * sleeps, because the option may change, and privileges that the program has dropped must not live on here:
 * the next thread inherits those of a thread of the program's. */
static bool sleep_in_background(uint64_t credentials) {
    for (uint64_t slept = 0; slept < decay_period_ms(); slept += SLEEP_MOST_MS) {
        os_sleep_ms(min_size(decay_period_ms() - slept, SLEEP_MOST_MS));
        heap_event(HEAP_EVENT_IN_BACKGROUND);
        if (os_credentials() != credentials) {
            return false;
        }
    }
    return true;
}

COLD static void run_in_background(void) {
    uint64_t credentials = os_credentials();
    bool more = true;
    decay_begun();
    heap_reclaim_restart();
    while (more && sleep_in_background(credentials)) {
        bool parcels = parcels_look_after();
        stocks_look_after(SIZE_MAX);
        bool holes = holes_purge_idle(HOLES_UNITS);
        more = decay_tick(heap_reclaim_idle() || parcels || holes);
    }
    if (more) {
        decay_stop();
    }
    parcels_return_all(); /* sent by threads that saw this one just before it ended */
}

static COLD void refuse_pages(void) {
    if (!foreign_libc_present()) {
        report_line(
            "the kernel's pages are not of 4 KiB, which is all that HAKMEM can do: link another malloc");
        abort();
    }
    libc_forced = true;
    report_line("the kernel's pages are not of 4 KiB; libc's allocator serves this program");
    report_fallback(FALLBACK_LIBC_FORCED, 0);
}

static NOINLINE void start_slow(void) {
    lock_acquire(&start_lock);
    if (!atomic_load_explicit(&started, memory_order_relaxed)) {
        os_note_process();
        options_init();
        size_class_init(option_number(OPTION_MAGAZINE_BYTES));
        arena_init();
        decay_set_work(run_in_background, purge_in_passing, relieve);
        if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK) || option_bool(OPTION_PROF_LEAKS)) {
            profile_start(0);
        }
        has_key = pthread_key_create(&key, end_thread) == 0;
        if (UNLIKELY(!os_pages_are_known())) {
            refuse_pages();
        } else if (option_bool(OPTION_FORCE_LIBC_ALLOC)) {
            libc_forced = foreign_libc_present();
            if (libc_forced) {
                report_fallback(FALLBACK_LIBC_FORCED, 0);
            } else {
                report_line("HAKMEM_FORCE_LIBC_ALLOC: libc's allocator is not linked in; ignored");
            }
        }
        atomic_store_explicit(&started, true, memory_order_release);
    }
    lock_release(&start_lock);
    register_fork_handlers();
}

void runtime_start(void) {
    if (UNLIKELY(!atomic_load_explicit(&started, memory_order_acquire))) {
        start_slow();
    }
}

bool runtime_libc_forced(void) {
    runtime_start();
    return libc_forced;
}

/* A thread that comes back for its heap shall keep the next one longer: what taking it saved was not worth
 * it. */
#define PATIENCE_LEAST 2u
#define LOSSES_MOST 10

static uint32_t patience(void) {
    if (thread_had_heap && thread_losses < LOSSES_MOST) {
        thread_losses++;
    }
    thread_had_heap = true;
    return PATIENCE_LEAST << thread_losses;
}

/* libc frees what ended threads have left in whichever thread ends next, after that one's last destructor. */
#define FREES_WITHOUT_HEAP 64

NOINLINE struct heap *thread_heap_make_to_free(uint32_t owner) {
    if (!thread_had_heap && thread_frees < FREES_WITHOUT_HEAP) {
        thread_frees++;
        thread_wants = heap_is_abandoned(owner) ? owner : thread_wants;
        return NULL;
    }
    return thread_heap_make();
}

NOINLINE struct heap *thread_heap_make(void) {
    runtime_start();
    if (thread_ended) {
        report_fallback(FALLBACK_THREAD_ENDING, 0);
        return NULL;
    }
    int saved_errno = errno; /* the thread's first call may be free */
    /* Without a key nobody would say when the thread's variables are gone. */
    struct heap *heap = heap_acquire(has_key ? &thread_self.heap : NULL, patience(), thread_wants);
    if (heap != NULL) {
        thread_wants = 0;
        atomic_store_explicit(&thread_self.heap, heap, memory_order_relaxed);
        if (heap->id >= THREADS_WORTH_A_LOOK) {
            decay_request();
        }
        if (has_key) {
            if (pthread_setspecific(key, heap) != 0) { /* may allocate: the heap is there already */
                heap_keep(heap);
            }
        }
        heap_leave(heap);
    }
    errno = saved_errno;
    return heap;
}

struct heap *shared_heap_lock(void) {
    runtime_start();
    lock_acquire(&shared_lock);
    if (shared_heap == NULL) {
        shared_heap = heap_acquire(NULL, 0, 0);
        if (shared_heap == NULL) {
            lock_release(&shared_lock);
            return NULL;
        }
        heap_leave(shared_heap);
        /* relaxed: read by fork, under the same lock */
        atomic_store_explicit(&shared_heap->state, HEAP_SHARED, memory_order_relaxed);
    }
    return shared_heap;
}

void shared_heap_unlock(void) {
    lock_release(&shared_lock);
}

COLD void shared_heap_collect(void) {
    lock_acquire(&shared_lock);
    if (shared_heap != NULL) {
        heap_flush_all(shared_heap, FLUSH_API);
        heap_retire_slabs(shared_heap);
    }
    lock_release(&shared_lock);
}

/* ---- Fork --------------------------------------------------------------------------------------- */

/* glibc's fork takes the lock of its list of streams after the handlers have run; a thread that holds
 * it may wait for a stream whose holder allocates. So it must come before our locks. It is recursive. */
extern __attribute__((weak)) void _IO_list_lock(void);
extern __attribute__((weak)) void _IO_list_unlock(void);
extern __attribute__((weak)) void _IO_list_resetlock(void);

/* Between before_fork and after_fork. relaxed: true only where there is one thread */
static _Atomic bool fork_is_alone;

static bool fork_has_no_locks(void) {
    return atomic_load_explicit(&fork_is_alone, memory_order_relaxed);
}

/* The locks in the order in which they nest. None where there is no other thread, who would be locked out:
 * the handler of a signal that came in the midst of malloc may fork, and would wait for what it has
 * interrupted. */
static void before_fork(void) {
    bool alone = heap_is_alone();
    atomic_store_explicit(&fork_is_alone, alone, memory_order_relaxed);
    if (alone) {
        return;
    }
    decay_prepare_for_fork();
    if (_IO_list_lock != NULL) {
        _IO_list_lock();
    }
    lock_acquire(&start_lock);
    options_lock_for_fork();
    lock_acquire(&shared_lock);
    sampling_lock_for_fork();
    heap_lock_for_fork();
    arena_lock_for_fork();
    profile_lock_for_fork();
}

static void after_fork(bool child) {
    if (child) {
        os_note_process();
        cgroup_forget();
    }
    if (fork_has_no_locks()) {
        if (child) {
            heap_follow_into_child(thread_heap_now());
        }
        return;
    }
    profile_unlock_after_fork(child);
    arena_unlock_after_fork(child);
    heap_unlock_after_fork(child, thread_heap_now());
    sampling_unlock_after_fork(child);
    lock_end_fork(&shared_lock, child);
    options_unlock_after_fork(child);
    lock_end_fork(&start_lock, child);
    void (*end_list_lock)(void) = child ? _IO_list_resetlock : _IO_list_unlock;
    if (end_list_lock != NULL) {
        end_list_lock();
    }
    if (child) {
        holes_turn_lost_by_fork();
        slack_lock_lost_by_fork();
        heap_collect_lost_by_fork();
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
static void register_fork_handlers(void) {
    static _Atomic bool registered;
    /* relaxed: only one thread may go on, and it needs nothing of the others */
    if (!atomic_exchange_explicit(&registered, true, memory_order_relaxed)) {
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
}

/* glibc hands constructors what main gets. This one comes before those of libc, which set `environ`, and
 * before our own others. */
__attribute__((constructor(101))) static void at_load(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    os_set_environment(environment);
    runtime_start();
#ifdef HAKMEM_STANDARD_NAMES
    if (!libc_forced) { /* elsewhere nothing is taken before it is asked for */
        arena_reserve_first();
    }
#endif
}
