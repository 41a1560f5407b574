#include "heap/heap.h"
#include "heap/thread.h"

bool hakmem_test_heap_is_entered(void);

/* Whether the calling thread says that it may sleep holding on to its heap: see heap_enter. */
bool hakmem_test_heap_is_entered(void) {
    return atomic_load_explicit(&thread_heap_now()->busy, memory_order_relaxed) > 0;
}
