#include "arena/internal.h"

bool hakmem_test_arena_is_locked(void);
bool hakmem_test_arena_is_purging(void);
bool hakmem_test_end_of_purging_is_awaited(void);

/* Whether a thread, which may be the caller, holds the arena's lock. */
bool hakmem_test_arena_is_locked(void) {
    bool free = lock_try(&arena.lock);
    if (free) {
        lock_release(&arena.lock);
    }
    return !free;
}

bool hakmem_test_arena_is_purging(void) {
    return atomic_load_explicit(&arena.purging, memory_order_relaxed) > 0;
}

bool hakmem_test_end_of_purging_is_awaited(void) {
    return atomic_load_explicit(&arena.end_waiters, memory_order_relaxed) > 0;
}
