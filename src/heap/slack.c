#include "heap/slack.h"

#include "options/options.h"

/* Free blocks may take RETAIN_MIN and 1/MORE_PART of it. */
#define MORE_PART 2

_Atomic int64_t slack_purged;
_Atomic uint64_t slack_taken_bytes;

int64_t slack_resident(void) {
    return arena_slack() - atomic_load_explicit(&slack_purged, memory_order_relaxed);
}

/* As much as free slabs may be (retention.h), and in small programs half as much again, because a free block
 * in a slab is sooner wanted than a whole slab. */
int64_t slack_allowed(void) {
    size_t least = option_number(OPTION_RETAIN_MIN);
    return (int64_t)max_size(arena_share_bytes(), arena_is_scarce() ? 0 : least + least / MORE_PART);
}
