/* The library's thread, on its way out, comes to what has the program's threads start it. In C, because C++
 * has no _Atomic. */
#include "arena/decay.h"
#include "os/thread.h"

bool hakmem_test_start_thread_that_ends_early(void);

static void end_early(void) {
    decay_begun();
    (void)decay_tick(true);
    decay_stop();
    decay_look(); /* as if it had given back what is in parcels, and that were much */
}

/* False if the thread could not be started. There is none yet. */
bool hakmem_test_start_thread_that_ends_early(void) {
    os_thread_prepare();
    return os_thread_start(end_early);
}
