/* Threads and their heaps.
 *
 * Promises that a thread gets its heap on its first allocation and loses it when it ends, and that memory
 * can be allocated and freed before the first and after the last of these. Relies on pthread keys (which do
 * not allocate for the first 32) and, for threads without a heap, on the shared one.
 */
#ifndef HAKMEM_HEAP_THREAD_H
#define HAKMEM_HEAP_THREAD_H

#include "heap/heap_table.h"

/* What the fast paths want of the calling thread, in one place: the same offset leads to both. */
struct thread_self {
    /* Written by the thread itself, or by reclaim.c while it sleeps. relaxed: see reclaim.c */
    heap_slot heap;
    int64_t sample_left; /* bytes until sampling.c must decide; below 0 only on the way there */
    uint64_t sample_run; /* profile_switch.run when the way to the next sample was drawn */
};
extern INTERNAL _Thread_local __attribute__((tls_model("initial-exec"))) struct thread_self thread_self;

/* The calling thread's heap; heap_of_no_thread if it has none. */
static inline struct heap *thread_heap_now(void) {
    return atomic_load_explicit(&thread_self.heap, memory_order_relaxed);
}

/* The calling thread's heap, made now if need be; NULL if it can have none (any more). Starts the
 * library on the very first call. */
struct heap *thread_heap_make(void);
static inline struct heap *thread_heap_get(void) {
    struct heap *heap = thread_heap_now();
    return LIKELY(heap != &heap_of_no_thread) ? heap : thread_heap_make();
}

/* As thread_heap_make, for free, which can do without a heap: for the first few frees of a thread that never
 * had one, NULL. `owner` is the id of the heap whose block is freed, or 0: a new thread that frees what one
 * before it has left is best off with that one's heap. */
struct heap *thread_heap_make_to_free(uint32_t owner);
static inline struct heap *thread_heap_get_to_free(uint32_t owner) {
    struct heap *heap = thread_heap_now();
    return LIKELY(heap != &heap_of_no_thread) ? heap : thread_heap_make_to_free(owner);
}

/* Makes the key by which threads lose their heaps when they end. Called once, by runtime_start. */
void thread_begin(void);

#endif
