#include "os/lock.h"

#include "os/wait.h"

#define SPINS_BEFORE_SLEEP 40
/* Spins that take some 50 us, as long as it takes to wake a thread. */
#define SPINS_OF_A_MOMENT 1000

/* relaxed everywhere: statistics */
static const struct lock *_Atomic apart;
static _Atomic uint64_t waits_apart, waits;

void lock_count_apart(const struct lock *lock) {
    atomic_store_explicit(&apart, lock, memory_order_relaxed);
}

uint64_t lock_waits_apart(void) {
    return atomic_load_explicit(&waits_apart, memory_order_relaxed);
}

uint64_t lock_waits(void) {
    return atomic_load_explicit(&waits, memory_order_relaxed);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory"); /* "yield" takes no time on most processors */
#endif
}

COLD void lock_wait(struct lock *lock) {
    bool is_apart = lock == atomic_load_explicit(&apart, memory_order_relaxed);
    atomic_fetch_add_explicit(is_apart ? &waits_apart : &waits, 1, memory_order_relaxed);
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        /* relaxed: only a hint whether to try */
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && lock_try(lock)) {
            return;
        }
        relax();
    }
    /* acquire pairs with the release in lock_release; 2, because others may already sleep */
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        os_wait(&lock->state, 2);
    }
}

COLD void lock_wake(struct lock *lock) {
    os_wake(&lock->state, 1);
}

COLD void lock_hand_over(struct lock *lock) {
    lock_release(lock);
    /* relaxed: only to see whether the woken thread has taken it */
    for (int i = 0; i < SPINS_OF_A_MOMENT && atomic_load_explicit(&lock->state, memory_order_relaxed) == 0;
         i++) {
        relax();
    }
}
