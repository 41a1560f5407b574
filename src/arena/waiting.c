#include "arena/waiting.h"

#include "arena/internal.h"
#include "base/bits.h"
#include "os/wait.h"

/* One less, and what is left. None already where a handler of a signal forked in the midst: what it had
 * interrupted goes on in the child, which has begun anew (arena_unlock_after_fork). Arena lock held. */
static uint32_t count_off(_Atomic uint32_t *count) {
    uint32_t left = atomic_load_explicit(count, memory_order_relaxed);
    left -= left > 0;
    atomic_store_explicit(count, left, memory_order_relaxed);
    return left;
}

void arena_begin_purging(void) {
    atomic_fetch_add_explicit(&arena.purging, 1, memory_order_relaxed);
}

void arena_end_purging(void) {
    (void)count_off(&arena.purging);
    if (arena.purge_waiters > 0) {
        os_wake(&arena.purging, arena.purge_waiters);
    }
}

RARE bool arena_wait_for_one_purge(void) {
    uint32_t purging = atomic_load_explicit(&arena.purging, memory_order_relaxed);
    if (purging == 0) {
        return false;
    }
    arena.purge_waiters++;
    lock_release(&arena.lock);
    os_wait(&arena.purging, purging);
    lock_acquire(&arena.lock);
    arena.purge_waiters -= arena.purge_waiters > 0; /* as count_off */
    return true;
}

RARE void arena_wait_for_purge(void) {
    atomic_fetch_add_explicit(&arena.end_waiters, 1, memory_order_relaxed);
    while (arena_wait_for_one_purge()) {
    }
    if (count_off(&arena.end_waiters) == 0 && arena.held_back > 0) {
        os_wake(&arena.end_waiters, arena.held_back);
    }
}

void arena_let_waiters_pass(void) {
    uint32_t waiters;
    while ((waiters = atomic_load_explicit(&arena.end_waiters, memory_order_relaxed)) > 0) {
        arena.held_back++;
        lock_release(&arena.lock);
        os_wait(&arena.end_waiters, waiters);
        lock_acquire(&arena.lock);
        arena.held_back -= arena.held_back > 0;
    }
}
