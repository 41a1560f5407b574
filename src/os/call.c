#include "os/call.h"

_Atomic uint64_t os_calls;

void *os_map(void *hint, size_t bytes, int protection, int extra_flags) {
    count_call();
    void *p = mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra_flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

#ifdef HAKMEM_FAULTS
static struct {
    /* relaxed everywhere: a test sets them while no other thread is inside, or accepts that it takes
     * effect a call late */
    _Atomic long after; /* calls that still succeed */
    _Atomic long count; /* calls that then fail; below 0: all */
} faults[OS_FAULT_KINDS];

void os_fault_set(enum os_fault kind, long after, long count) {
    atomic_store_explicit(&faults[kind].after, after, memory_order_relaxed);
    atomic_store_explicit(&faults[kind].count, count, memory_order_relaxed);
}

static void (*_Atomic listener)(void); /* relaxed everywhere, as above */

void os_fault_listen(void (*heard)(void)) {
    atomic_store_explicit(&listener, heard, memory_order_relaxed);
}

void fault_tell(void) {
    void (*heard)(void) = atomic_load_explicit(&listener, memory_order_relaxed);
    if (heard != NULL) {
        heard();
    }
}

bool fault_due(enum os_fault kind) {
    fault_tell();
    if (atomic_load_explicit(&faults[kind].count, memory_order_relaxed) == 0) {
        return false;
    }
    if (atomic_fetch_sub_explicit(&faults[kind].after, 1, memory_order_relaxed) > 0) {
        return false;
    }
    if (atomic_load_explicit(&faults[kind].count, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&faults[kind].count, 1, memory_order_relaxed);
    }
    errno = ENOMEM;
    return true;
}
#endif
