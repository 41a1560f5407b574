#include "profile/internal.h"

bool hakmem_test_profile_is_locked(void);

bool hakmem_test_profile_is_locked(void) {
    /* relaxed: of interest where there is one thread */
    return atomic_load_explicit(&profile.lock.state, memory_order_relaxed) != 0;
}
