#include "heap/thread.h"

#include "heap/reclaim.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "os/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>

_Thread_local
    __attribute__((tls_model("initial-exec"))) struct thread_self thread_self = {.heap = &heap_of_no_thread};
static _Thread_local __attribute__((tls_model("initial-exec"))) bool thread_ended;

/* How often a heap was taken from the thread while it slept, LOSSES_MOST at most. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t thread_losses;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool thread_had_heap;
/* The id of the heap that the thread would rather have than another: that of the last block of an ended
 * thread's that it freed before it had one; or 0. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t thread_wants;
/* Frees of the thread before it had a heap. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t thread_frees;

static bool has_key; /* set once, before the first block */
static pthread_key_t key;

static void end_thread(void *value) {
    (void)value; /* its first heap, which may have been another thread's for long */
    thread_ended = true;
    struct heap *heap = heap_disown(&thread_self.heap);
    if (heap != NULL) {
        heap_abandon(heap, true);
    }
}

void thread_begin(void) {
    has_key = pthread_key_create(&key, end_thread) == 0;
}

/* Idle looks after which a thread's first heap may be taken; twice as many for each that was: where a thread
 * comes back for its heap, what taking it saved was not worth it. */
#define PATIENCE_LEAST 2u
#define LOSSES_MOST 10

static uint32_t patience(void) {
    if (thread_had_heap && thread_losses < LOSSES_MOST) {
        thread_losses++;
    }
    thread_had_heap = true;
    return PATIENCE_LEAST << thread_losses;
}

/* Frees that a thread makes before it gets a heap for them. libc frees what ended threads have left in
 * whichever thread ends next, after that one's last destructor. */
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
        atomic_store_explicit(&thread_self.heap, heap, memory_order_relaxed); /* relaxed: its own */
        if (atomic_load_explicit(&heap_reclaim_asked, memory_order_relaxed)) {
            heap_reclaim_request();
        }
        heap_reclaim_look(heap);
        if (has_key && pthread_setspecific(key, heap) != 0) { /* may allocate: the heap is there already */
            heap_keep(heap);
        }
        heap_leave(heap);
    }
    errno = saved_errno;
    return heap;
}
