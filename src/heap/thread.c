#include "heap/thread.h"

#include "arena/arena.h"
#include "heap/foreign.h"
#include "options/options.h"
#include "os/report.h"

#include <errno.h>
#include <pthread.h>

struct heap heap_of_no_thread;
_Thread_local __attribute__((tls_model("initial-exec"))) struct heap *thread_heap = &heap_of_no_thread;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool thread_ended;

static struct lock start_lock;
/* release when all is set up pairs with the acquire in runtime_start */
static _Atomic bool started;
static bool libc_forced;
static bool has_key;
static pthread_key_t key;

static struct lock shared_lock;
static struct heap *shared_heap;

static void end_thread(void *value) {
    struct heap *heap = value;
    thread_heap = &heap_of_no_thread;
    thread_ended = true;
    heap_abandon(heap);
}

static COLD void start_slow(void) {
    lock_acquire(&start_lock);
    if (!atomic_load_explicit(&started, memory_order_relaxed)) {
        options_init();
        size_class_init(option_number(OPTION_MAGAZINE_BYTES));
        arena_init();
        has_key = pthread_key_create(&key, end_thread) == 0;
        if (option_bool(OPTION_FORCE_LIBC_ALLOC)) {
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

COLD struct heap *thread_heap_make(void) {
    runtime_start();
    if (thread_ended) {
        report_fallback(FALLBACK_THREAD_ENDING, 0);
        return NULL;
    }
    int saved_errno = errno; /* the thread's first call may be free */
    struct heap *heap = heap_acquire();
    if (heap != NULL) {
        thread_heap = heap;
        if (has_key) {
            pthread_setspecific(key, heap); /* may allocate: the heap is there already */
        }
    }
    errno = saved_errno;
    return heap;
}

struct heap *shared_heap_lock(void) {
    runtime_start();
    lock_acquire(&shared_lock);
    if (shared_heap == NULL) {
        shared_heap = heap_acquire();
        if (shared_heap == NULL) {
            lock_release(&shared_lock);
            return NULL;
        }
        /* relaxed: read by fork, under the same lock */
        atomic_store_explicit(&shared_heap->state, HEAP_SHARED, memory_order_relaxed);
    }
    return shared_heap;
}

void shared_heap_unlock(void) {
    lock_release(&shared_lock);
}

/* The locks in the order in which they nest. */
static void before_fork(void) {
    lock_acquire(&start_lock);
    lock_acquire(&shared_lock);
    heap_lock_for_fork();
    arena_lock_for_fork();
}

static void after_fork(bool child) {
    arena_unlock_after_fork(child);
    heap_unlock_after_fork(child, thread_heap);
    if (child) {
        lock_reset(&shared_lock);
        lock_reset(&start_lock);
    } else {
        lock_release(&shared_lock);
        lock_release(&start_lock);
    }
}

static void after_fork_in_parent(void) {
    after_fork(false);
}

static void after_fork_in_child(void) {
    after_fork(true);
}

__attribute__((constructor)) static void at_load(void) {
    runtime_start();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
