#include "profile/snapshot.h"

#include "base/sort.h"
#include "os/pages.h"
#include "profile/internal.h"
#include "profile/poisson.h"

#include <errno.h>

/* Copies the figures of all tallies that have any; NULL with errno ENOMEM. The profile's lock is held. */
static struct snapshot *copy(void) {
    size_t bytes = sizeof(struct snapshot) + profile.origins.tallies * sizeof(struct line);
    struct snapshot *snapshot = pages_take(bytes);
    if (snapshot == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    profile_begin_reading();
    snapshot->bytes = bytes;
    snapshot->interval = profile.interval != 0 ? profile.interval : PROFILE_INTERVAL_DEFAULT;
    for (struct origin *origin = profile.origins.newest; origin != NULL; origin = origin->older) {
        for (const struct tally *tally = origin->tallies; tally != NULL; tally = tally->next) {
            if (tally->figures.live_blocks != 0 || tally->figures.total_blocks != 0) {
                snapshot->lines[snapshot->count++] = (struct line){origin, tally->figures};
            }
        }
    }
    return snapshot;
}

struct snapshot *snapshot_take(bool may_wait) {
    if (!may_wait && !lock_try(&profile.lock)) {
        errno = EBUSY;
        return NULL;
    }
    if (may_wait) {
        lock_acquire(&profile.lock);
    }
    struct snapshot *snapshot = copy();
    if (may_wait) {
        profile_release();
    } else {
        lock_release(&profile.lock); /* the caller looks itself */
    }
    return snapshot;
}

void snapshot_end(struct snapshot *snapshot) {
    profile_end_reading();
    pages_give(snapshot, snapshot->bytes);
}

/* The largest rank first. */
static bool ranks_before(const void *one, const void *other) {
    return ((const struct share *)one)->rank > ((const struct share *)other)->rank;
}

void shares_sort(struct share *shares, size_t count) {
    sort_items(shares, count, sizeof *shares, ranks_before);
}

struct shares *shares_of_live(const struct snapshot *snapshot) {
    size_t bytes = sizeof(struct shares) + snapshot->count * sizeof(struct share);
    struct shares *shares = pages_take(bytes);
    if (shares == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    profile_begin_reading();
    shares->bytes = bytes;
    shares->interval = snapshot->interval;
    struct share *share = NULL;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct line *line = &snapshot->lines[i];
        if (line->figures.live_blocks == 0) {
            continue;
        }
        if (share == NULL || share->origin != line->origin) {
            share = &shares->share[shares->count++];
            share->origin = line->origin;
        }
        double blocks = (double)line->figures.live_blocks;
        double size = (double)line->figures.live_bytes / blocks;
        double weight = poisson_weight(size, snapshot->interval);
        share->blocks += blocks * weight;
        share->bytes += blocks * weight * size;
        share->rank = share->bytes;
        share->samples += line->figures.live_blocks;
    }
    shares_sort(shares->share, shares->count);
    return shares;
}

void shares_end(struct shares *shares) {
    profile_end_reading();
    pages_give(shares, shares->bytes);
}
