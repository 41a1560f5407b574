#include "arena/internal.h"

bool hakmem_test_arena_is_locked(void);

/* Whether a thread, which may be the caller, holds the arena's lock. */
bool hakmem_test_arena_is_locked(void) {
    bool free = lock_try(&arena.lock);
    if (free) {
        lock_release(&arena.lock);
    }
    return !free;
}
