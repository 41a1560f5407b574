/* The profile at one moment, for those who take their time to read it.
 *
 * Promises that the lock of the profile is held only while figures are copied, and not at all by those who
 * must not wait. Relies on origins staying where they are.
 */
#ifndef HAKMEM_PROFILE_SNAPSHOT_H
#define HAKMEM_PROFILE_SNAPSHOT_H

#include "profile/origins.h"

#include <stdbool.h>

struct line {
    const struct origin *origin;
    struct figures figures;
};

struct snapshot {
    size_t bytes;      /* of itself */
    uint64_t interval; /* of the samples; never 0 */
    size_t count;
    struct line lines[]; /* those of one origin are neighbours */
};

/* NULL with errno if there is no memory (ENOMEM), or the lock is held and the caller will not wait (EBUSY).
 */
struct snapshot *snapshot_take(bool may_wait);
void snapshot_end(struct snapshot *snapshot);

/* What one call stack has of something, by estimate from its samples. */
struct share {
    const struct origin *origin;
    double rank; /* by which they are sorted */
    double bytes, blocks;
    uint64_t samples;
};

/* The largest rank first. */
void shares_sort(struct share *shares, size_t count);

/* What is live in each origin, in memory of its own; NULL with errno ENOMEM. */
struct shares {
    size_t bytes; /* of itself */
    uint64_t interval;
    size_t count;
    struct share share[];
};
struct shares *shares_of_live(const struct snapshot *snapshot);
void shares_end(struct shares *shares);

#endif
