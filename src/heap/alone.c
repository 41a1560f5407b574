#include "heap/alone.h"

#include "heap/heap.h"
#include "heap/heap_table.h"
#include "os/program.h"
#include "os/thread.h"

bool heap_is_alone_beside_library_thread(void) {
    /* Heaps of a lone thread: its own and, if there is one, that of sampled blocks. relaxed: where the latter
     * is not seen yet, the answer is false, which is safe */
    uint32_t own = 1 + (atomic_load_explicit(&heap_id_of_samples, memory_order_relaxed) != 0);
    return !os_program_has_threads() && heap_id_limit() <= HEAP_FIRST_ID + own;
}

bool heap_is_alone(void) {
    return !os_thread_exists() && heap_is_alone_beside_library_thread();
}
