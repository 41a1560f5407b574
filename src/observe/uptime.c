#include "observe/uptime.h"

#include "base/bits.h"
#include "os/clock.h"

#include <stdatomic.h>

OFTEN uint64_t loaded_ms(void) {
    static _Atomic uint64_t loaded;
    uint64_t now = os_now_ms_by_call();
    uint64_t none = 0;
    /* relaxed: a number that orders nothing */
    return atomic_compare_exchange_strong_explicit(&loaded, &none, now, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? now
               : none;
}
