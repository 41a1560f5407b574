#include "profile/stack_extent.h"

#include "base/bits.h"
#include "os/stack_probe.h"

#include <stdatomic.h>

/* An extent does not grow by more at once: a frame larger than this is not believed. */
#define GROWTH_BYTES_MOST ((uintptr_t)64 << 20)
/* After so many walks in a row that did not come to the thread's own stack, none goes on for that. */
#define IN_VAIN_MOST 8u
/* Most bytes between a thread's outermost frame and the top of its stack: variables that each thread has. No
 * stack is so small that another one could end within them (PTHREAD_STACK_MIN is 16 KiB). */
#define TOP_BYTES_MOST ((uintptr_t)12 << 10)

/* The thread's own stack, as far as it is known: nothing while low is 0, up to its top from then on. relaxed
 * everywhere: only the thread itself and its signal handlers use it; a fence for these keeps high's store
 * before low's. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    _Atomic uintptr_t low, high;
    _Atomic uintptr_t top;    /* an address at its top; 0 if not looked for yet, or unknown */
    _Atomic unsigned in_vain; /* walks that were on no stack known as the thread's, in a row */
} own;

static uintptr_t own_low(void) {
    return atomic_load_explicit(&own.low, memory_order_relaxed);
}

static uintptr_t own_high(void) {
    return atomic_load_explicit(&own.high, memory_order_relaxed);
}

static uintptr_t page_of(uintptr_t address) {
    return round_down(address, OS_PAGE_BYTES);
}

void extent_here(struct extent *e, uintptr_t address) {
    e->low = page_of(address);
    bool known = own_low() != 0 && address >= own_low() && address < own_high();
    e->high = known ? own_high() : e->low + OS_PAGE_BYTES;
}

bool extent_elsewhere(struct extent *e, uintptr_t address) {
    extent_here(e, address);
    return os_readable(e->low);
}

bool extent_grow(struct extent *e, uintptr_t end) {
    if (end <= e->high) {
        return end > e->low;
    }
    if (end - e->high > GROWTH_BYTES_MOST) {
        return false;
    }
    while (e->high < end) {
        if (e->high == own_low()) {
            e->high = own_high();
        } else if (os_readable(e->high)) {
            e->high += OS_PAGE_BYTES;
        } else {
            return false;
        }
    }
    return true;
}

/* An address at the top of the thread's own stack; 0 if unknown. */
static uintptr_t own_top(void) {
    uintptr_t top = atomic_load_explicit(&own.top, memory_order_relaxed);
    if (top == 0) {
        top = os_own_stack_end();
        atomic_store_explicit(&own.top, top, memory_order_relaxed);
    }
    return top;
}

bool extent_wants_more_frames(uintptr_t reached) {
    uintptr_t low = own_low();
    return (low == 0 || reached < low) &&
           atomic_load_explicit(&own.in_vain, memory_order_relaxed) < IN_VAIN_MOST;
}

static void note_in_vain(unsigned walks) {
    atomic_store_explicit(&own.in_vain, walks, memory_order_relaxed);
}

void extent_keep(struct extent *e, uintptr_t reached) {
    uintptr_t low = own_low();
    uintptr_t high = own_high();
    if (LIKELY(low != 0 && e->low >= low && e->low < high)) {
        return;
    }
    uintptr_t top = low != 0 ? low : own_top();
    bool is_own = low != 0 ? reached >= low && reached < high : top - reached <= TOP_BYTES_MOST;
    if (reached < e->low || !is_own || !extent_grow(e, top + 1)) {
        unsigned before = atomic_load_explicit(&own.in_vain, memory_order_relaxed);
        note_in_vain(before < IN_VAIN_MOST ? before + 1 : before);
        return;
    }
    note_in_vain(0);
    if (low == 0) { /* e->high may be higher: a walk that fails has read whatever lies above the stack */
        atomic_store_explicit(&own.high, page_of(top) + OS_PAGE_BYTES, memory_order_relaxed);
        atomic_signal_fence(memory_order_release); /* a handler that sees low sees high */
    }
    atomic_store_explicit(&own.low, e->low, memory_order_relaxed);
}
