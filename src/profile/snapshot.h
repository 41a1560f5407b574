/* The profile at one moment, for those who take their time to read it.
 *
 * Promises that the lock of the profile is held only while figures are copied, and not at all by those who
 * must not wait; and that what it leads to can be read until its end, though a profile may begin anew
 * meanwhile. Relies on the profile's state and on os/pages.
 */
#ifndef HAKMEM_PROFILE_SNAPSHOT_H
#define HAKMEM_PROFILE_SNAPSHOT_H

#include "profile/origins.h"

#include <stdbool.h>

/* The figures of one tally. */
struct line {
    const struct origin *origin;
    struct figures figures;
};

struct snapshot {
    size_t bytes;      /* size of the snapshot itself */
    uint64_t interval; /* of the samples; never 0 */
    size_t count;
    struct line lines[]; /* those of one origin are neighbours */
};

/* Copies the figures, taking the profile's lock meanwhile. NULL with errno if there is no memory (ENOMEM), or
 * the lock is held and the caller may not wait (EBUSY). */
struct snapshot *snapshot_take(bool may_wait);
/* Gives the snapshot's memory back. */
void snapshot_end(struct snapshot *snapshot);

/* What one call stack has of something, by estimate from its samples. */
struct share {
    const struct origin *origin;
    double rank; /* by which shares are sorted */
    double bytes, blocks;
    double resident; /* of what the blocks keep from being returned */
    uint64_t samples;
};

/* Sorts shares by rank, the largest first. */
void shares_sort(struct share *shares, size_t count);

/* The shares of all call stacks that have any. */
struct shares {
    size_t bytes; /* size of the struct with its array */
    uint64_t interval;
    size_t count;
    struct share share[];
};
/* What is live by call stack, sorted by bytes, in memory of its own; NULL with errno ENOMEM. */
struct shares *shares_of_live(const struct snapshot *snapshot);
/* Gives the memory of shares back. */
void shares_end(struct shares *shares);

#endif
