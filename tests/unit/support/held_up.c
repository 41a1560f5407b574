/* The library's thread, waiting for what only the caller could do. In C, because C++ has no _Atomic. */
#include "os/thread.h"
#include "os/wait.h"

/* False if the thread could not be started. */
bool held_up_start(void);
void held_up_let_go(void);

/* relaxed everywhere: it orders nothing, and the kernel compares it */
static _Atomic uint32_t held;

static void wait_for_caller(void) {
    while (atomic_load_explicit(&held, memory_order_relaxed) != 0) {
        os_wait(&held, 1);
    }
}

bool held_up_start(void) {
    atomic_store_explicit(&held, 1, memory_order_relaxed);
    os_thread_prepare();
    return os_thread_start(wait_for_caller);
}

void held_up_let_go(void) {
    atomic_store_explicit(&held, 0, memory_order_relaxed);
    os_wake(&held, 1);
}
