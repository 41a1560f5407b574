#include "profile/snapshot.h"

#include "base/sort.h"
#include "os/pages.h"
#include "profile/internal.h"
#include "profile/poisson.h"

#include <errno.h>

/* What a snapshot takes now; the profile's lock is held. */
static size_t bytes_needed(void) {
    return sizeof(struct snapshot) + profile.origins.tallies * sizeof(struct line);
}

/* Memory for a snapshot, with a part more, as there may be more tallies when it is filled; NULL with errno
 * ENOMEM. */
static struct snapshot *make(size_t bytes) {
    bytes += bytes / 8;
    struct snapshot *snapshot = pages_take_touched(bytes);
    if (snapshot == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    snapshot->bytes = bytes;
    return snapshot;
}

/* Copies the figures of all tallies that have any. The profile's lock is held. */
static void copy_to(struct snapshot *snapshot) {
    profile_begin_reading();
    snapshot->interval = profile.interval != 0 ? profile.interval : PROFILE_INTERVAL_DEFAULT;
    for (struct origin *origin = profile.origins.newest; origin != NULL; origin = origin->older) {
        for (const struct tally *tally = origin->tallies; tally != NULL; tally = tally->next) {
            if (tally->figures.live_blocks != 0 || tally->figures.total_blocks != 0) {
                snapshot->lines[snapshot->count++] = (struct line){origin, tally->figures};
            }
        }
    }
}

static bool acquire(bool may_wait) {
    if (may_wait) {
        lock_acquire(&profile.lock);
        return true;
    }
    return lock_try(&profile.lock);
}

static void release(bool may_wait) {
    if (may_wait) {
        profile_release();
    } else {
        lock_release(&profile.lock); /* the caller looks itself whether another profile was asked for */
    }
}

struct snapshot *snapshot_take(bool may_wait) {
    struct snapshot *snapshot = NULL;
    while (acquire(may_wait)) {
        size_t bytes = bytes_needed();
        bool fits = snapshot != NULL && bytes <= snapshot->bytes;
        if (fits) {
            copy_to(snapshot);
        }
        release(may_wait);
        if (fits) {
            return snapshot;
        }
        pages_give(snapshot, snapshot == NULL ? 0 : snapshot->bytes);
        snapshot = make(bytes);
        if (snapshot == NULL) {
            return NULL;
        }
    }
    pages_give(snapshot, snapshot == NULL ? 0 : snapshot->bytes);
    errno = EBUSY;
    return NULL;
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
