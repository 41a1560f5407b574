#include "heap/fresh.h"

long long hakmem_test_fresh_resident(void);

/* What counts of all heaps as resident in blocks that were never handed out. */
long long hakmem_test_fresh_resident(void) {
    return (long long)atomic_load_explicit(&fresh_resident, memory_order_relaxed);
}
