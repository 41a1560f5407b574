#include "profile/pinned.h"

#include "arena/region.h"
#include "base/floating.h"
#include "base/json_char.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/maps.h"
#include "os/pages.h"
#include "profile/internal.h"
#include "profile/poisson.h"
#include "profile/snapshot.h"
#include "slab/slab.h"

#include <errno.h>

/* The slab, or the first one of the run, that `block` is in. */
static const struct slab *slab_of(const void *block) {
    const struct region *region = region_of((uintptr_t)block);
    return region_slab(region, region_run_index(region, (uintptr_t)block));
}

struct pinned {
    double bytes, resident;
};

/* Bytes of the slab's blocks that were used and freed, and of these what was not given back by the page,
 * divided by the number of its live ones. */
static struct pinned pinned_by_each(const struct slab *slab) {
    const struct size_class *c = &size_classes[slab->size_class];
    /* relaxed: a guess while others take and return blocks */
    size_t unused = c->blocks - atomic_load_explicit(&slab->bump, memory_order_relaxed);
    size_t free = min_size(slab_count_free(slab), c->blocks - 1);
    size_t freed = free > unused ? free - unused : 0;
    size_t bytes = freed * c->bytes;
    double live = (double)(c->blocks - free);
    return (struct pinned){
        .bytes = (double)bytes / live,
        .resident = (double)(bytes - min_size(bytes, slab_purged_bytes(slab))) / live,
    };
}

/* Adds a record to the share of its call stack. The profile's lock is held, so that the record's shadow is
 * live, and its slab with it. */
static void add_sample(struct shares *shares, const struct record *record) {
    struct share *share = &shares->share[record->tally->origin->number];
    double weight = poisson_weight((double)record->size, profile.interval);
    share->origin = record->tally->origin;
    struct pinned pinned = pinned_by_each(slab_of(record->shadow));
    share->rank += weight * pinned.bytes;
    share->resident += weight * pinned.resident;
    share->blocks += weight;
    share->bytes += weight * (double)record->size;
    share->samples++;
}

/* Room for the shares of so many call stacks, and a part more, as there may be more of them by the time that
 * it is filled; NULL with errno ENOMEM. */
static struct shares *make(size_t origins) {
    size_t bytes = sizeof(struct shares) + (origins + origins / 8) * sizeof(struct share);
    struct shares *shares = pages_take_touched(bytes);
    if (shares == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    shares->bytes = bytes;
    return shares;
}

/* Adds up the blocks sampled in this run and allocated at `oldest_since_ms` or before, by the number of their
 * call stack. The profile's lock is held. */
static void collect(struct shares *shares, uint64_t oldest_since_ms) {
    profile_begin_reading();
    shares->interval = profile.interval;
    shares->count = profile.origins.count;
    for (size_t i = 0; i < profile.live.capacity; i++) {
        const struct record *record = &profile.live.slots[i];
        if (record->shadow != NULL && record->run == profile.run && record->since_ms <= oldest_since_ms) {
            add_sample(shares, record);
        }
    }
}

/* Leaves out the call stacks without a sample. */
static void close_up(struct shares *shares) {
    size_t all = shares->count;
    shares->count = 0;
    for (size_t i = 0; i < all; i++) {
        if (shares->share[i].samples > 0) {
            shares->share[shares->count++] = shares->share[i];
        }
    }
}

/* The shares of all call stacks that have any, unsorted; NULL with errno ENOMEM. */
static struct shares *take_shares(uint64_t oldest_since_ms) {
    struct shares *shares = NULL;
    bool fits = false;
    while (!fits) {
        lock_acquire(&profile.lock);
        size_t origins = profile.origins.count;
        fits = shares != NULL && sizeof *shares + origins * sizeof(struct share) <= shares->bytes;
        if (fits) {
            collect(shares, oldest_since_ms);
        }
        profile_release();
        if (!fits) {
            pages_give(shares, shares == NULL ? 0 : shares->bytes);
            shares = make(origins);
            if (shares == NULL) {
                return NULL;
            }
        }
    }
    close_up(shares);
    return shares;
}

static void write_share(struct sink *out, const struct share *share) {
    sink_string(out, "{\"pinned_bytes\":");
    sink_decimal(out, (uint64_t)(share->rank + 0.5));
    sink_string(out, ",\"live_bytes\":");
    sink_decimal(out, (uint64_t)(share->bytes + 0.5));
    sink_string(out, ",\"live_blocks\":");
    sink_decimal(out, (uint64_t)(share->blocks + 0.5));
    sink_string(out, ",\"samples\":");
    sink_decimal(out, share->samples);
    sink_string(out, ",\"frames\":[");
    for (size_t i = 0; i < share->origin->depth; i++) {
        sink_string(out, i == 0 ? "\"" : ",\"");
        sink_hex(out, share->origin->frames[i]);
        sink_char(out, '"');
    }
    sink_string(out, "],\"resident_bytes\":");
    sink_decimal(out, (uint64_t)(share->resident + 0.5));
    sink_char(out, '}');
}

struct writing {
    struct sink out;
    bool any;
};

static bool write_mapping(const struct mapping *mapping, void *context) {
    struct writing *w = context;
    if (mapping->executable) {
        sink_string(&w->out, w->any ? ",\n\"" : "\n\"");
        for (const char *c = mapping->line; *c != '\0'; c++) {
            sink_string(&w->out, json_char(*c).text);
        }
        sink_char(&w->out, '"');
        w->any = true;
    }
    return true;
}

static int write_json(int fd, const struct shares *shares) {
    struct writing w = {.any = false};
    sink_begin(&w.out, fd);
    double total = 0, resident = 0;
    for (size_t i = 0; i < shares->count; i++) {
        total += shares->share[i].rank;
        resident += shares->share[i].resident;
    }
    sink_string(&w.out, "{\"total_pinned_bytes\":");
    sink_decimal(&w.out, (uint64_t)(total + 0.5));
    sink_string(&w.out, ",\"total_resident_bytes\":");
    sink_decimal(&w.out, (uint64_t)(resident + 0.5));
    sink_string(&w.out, ",\"interval\":");
    sink_decimal(&w.out, shares->interval);
    sink_string(&w.out, ",\"sites\":[");
    for (size_t i = 0; i < shares->count; i++) {
        sink_string(&w.out, i == 0 ? "\n" : ",\n");
        write_share(&w.out, &shares->share[i]);
    }
    sink_string(&w.out, "],\n\"mappings\":[");
    maps_visit(write_mapping, &w);
    sink_string(&w.out, "]}\n");
    return sink_end(&w.out);
}

static int write_pinned(int fd) {
    uint64_t now = os_now_ms();
    uint64_t oldest_since_ms = now - min_size(now, option_number(OPTION_PROF_AGE_MS));
    struct shares *shares = take_shares(oldest_since_ms);
    if (shares == NULL) {
        return -1;
    }
    shares_sort(shares->share, shares->count);
    int result = write_json(fd, shares);
    shares_end(shares);
    return result;
}

int pinned_write(int fd) {
    struct floating held = floating_hold();
    int result = write_pinned(fd);
    floating_restore(held);
    return result;
}
