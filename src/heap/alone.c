#include "heap/alone.h"

#include "heap/heap.h"
#include "os/thread.h"

bool heap_is_alone(void) {
    return !os_program_has_threads() && !os_thread_exists() && heap_id_limit() <= HEAP_FIRST_ID + 1;
}
