#include "os/backoff.h"

#include "base/bits.h"
#include "os/clock.h"

COLD bool backoff_holds(const struct backoff *backoff) {
    uint64_t until = atomic_load_explicit(&backoff->until_ms, memory_order_relaxed);
    return until > 0 && os_now_ms() < until;
}

COLD bool backoff_is_longest(const struct backoff *backoff) {
    return atomic_load_explicit(&backoff->pause_ms, memory_order_relaxed) == BACKOFF_MOST_MS;
}

COLD void backoff_begin(struct backoff *backoff) {
    if (backoff_holds(backoff)) {
        return;
    }
    uint32_t pause = atomic_load_explicit(&backoff->pause_ms, memory_order_relaxed);
    pause = pause == 0 ? BACKOFF_MS : (uint32_t)min_size((size_t)pause * 2, BACKOFF_MOST_MS);
    atomic_store_explicit(&backoff->pause_ms, pause, memory_order_relaxed);
    atomic_store_explicit(&backoff->until_ms, os_now_ms() + pause, memory_order_relaxed);
}

COLD void backoff_end(struct backoff *backoff) {
    if (atomic_load_explicit(&backoff->pause_ms, memory_order_relaxed) > 0) {
        atomic_store_explicit(&backoff->pause_ms, 0, memory_order_relaxed);
        atomic_store_explicit(&backoff->until_ms, 0, memory_order_relaxed);
    }
}
