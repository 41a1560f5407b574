/* A mutex of four bytes that is unlocked when zero.
 *
 * Promises mutual exclusion and acquire/release order between holders; not recursive. Relies on
 * os_wait/os_wake only, so it may be used inside malloc and survives fork (lock_end_fork).
 * The three-state futex mutex of Drepper, "Futexes Are Tricky" (2011).
 */
#ifndef HAKMEM_OS_LOCK_H
#define HAKMEM_OS_LOCK_H

#include "base/bits.h"

#include <stdatomic.h>

struct lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody may sleep */
};

/* Counts apart from now on how often threads find `lock` taken. */
void lock_count_apart(const struct lock *lock);
/* How often a thread found that lock taken. */
uint64_t lock_waits_apart(void);
/* How often a thread found any other lock taken. */
uint64_t lock_waits(void);

/* lock_acquire's slow path: spins for a moment, then sleeps until the lock is the caller's. */
void lock_wait(struct lock *lock);
/* lock_release's slow path: wakes one thread that sleeps for the lock. */
void lock_wake(struct lock *lock);

/* Takes the lock if it is free, without waiting; false if it is held. */
static inline bool lock_try(struct lock *lock) {
    uint32_t expected = 0;
    /* acquire pairs with the release in lock_release */
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void lock_acquire(struct lock *lock) {
    if (UNLIKELY(!lock_try(lock))) {
        lock_wait(lock);
    }
}

static inline void lock_release(struct lock *lock) {
    /* release pairs with the acquire of the next holder */
    if (UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)) {
        lock_wake(lock);
    }
}

/* For the holder of the lock: whether somebody may be asleep, waiting for it. relaxed: a hint */
static inline bool lock_is_wanted(const struct lock *lock) {
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == 2;
}

/* Releases a lock that lock_is_wanted, and gives whoever is woken a moment to take it: otherwise the caller,
 * if it soon takes the lock again, would mostly be faster. */
void lock_hand_over(struct lock *lock);

/* Releases a lock that the thread took before it forked; `child` says in which process. In the child, whose
 * only thread inherits the lock, there is nobody to wake. */
static inline void lock_end_fork(struct lock *lock, bool child) {
    if (child) {
        /* relaxed: there is no other thread yet */
        atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
    } else {
        lock_release(lock);
    }
}

#endif
