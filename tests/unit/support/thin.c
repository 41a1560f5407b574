#include "profile/internal.h"
#include "profile/thinning.h"

void hakmem_test_thin(uint64_t interval);

/* What happens to the samples when they come too fast. */
void hakmem_test_thin(uint64_t interval) {
    lock_acquire(&profile.lock);
    thinning_to(interval);
    lock_release(&profile.lock);
}
