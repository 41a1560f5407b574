/* Taking heaps from threads that ended without a word.
 *
 * A thread's last destructor returns its heap. None comes for one that left by the exit system call, or that
 * got its heap when its destructors had run already: in their last round, or because libc frees there what
 * other threads have left. The system knows which threads there are.
 */
#include "heap/heap.h"
#include "os/asleep.h"
#include "os/os.h"

/* One that ended within the library may have left the heap half changed. Registry's lock held. */
static bool is_lost(const struct heap *heap) {
    const struct owner *owner = &heap->owner;
    /* relaxed: nobody changes it any more if the thread is gone */
    return owner->slot != NULL && owner->thread != NO_THREAD_ID &&
           atomic_load_explicit(&heap->busy, memory_order_relaxed) == 0 && os_thread_is_gone(owner->thread);
}

COLD void heap_reap(void) {
    if (!os_in_own_process()) {
        return; /* whose threads have other numbers */
    }
    for (uint32_t id = HEAP_FIRST_ID; id < heap_id_limit(); id++) {
        struct heap *heap = heap_by_id(id);
        registry_lock();
        bool lost = is_lost(heap);
        if (lost) {
            heap->owner.slot = NULL;
        }
        registry_unlock();
        if (lost) {
            heap_abandon(heap, false);
        }
    }
}
