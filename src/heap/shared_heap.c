#include "heap/shared_heap.h"

#include "heap/flush_all.h"
#include "heap/heap.h"
#include "heap/registry.h"
#include "heap/runtime.h"
#include "os/lock.h"

static struct lock shared_lock;
static struct heap *shared_heap;

COLD struct heap *shared_heap_lock(void) {
    runtime_start();
    lock_acquire(&shared_lock);
    if (shared_heap == NULL) {
        shared_heap = heap_acquire(NULL, 0, 0);
        if (shared_heap == NULL) {
            lock_release(&shared_lock);
            return NULL;
        }
        heap_leave(shared_heap);
        /* relaxed: fork takes this lock before it reads the state; others take it as a hint */
        atomic_store_explicit(&shared_heap->state, HEAP_SHARED, memory_order_relaxed);
    }
    return shared_heap;
}

COLD void shared_heap_unlock(void) {
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

RARE void shared_heap_lock_for_fork(void) {
    lock_acquire(&shared_lock);
}

RARE void shared_heap_unlock_after_fork(bool child) {
    lock_end_fork(&shared_lock, child);
}
