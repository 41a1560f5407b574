#include "arena/purge.h"

#include "arena/behind.h"
#include "arena/dense.h"
#include "arena/internal.h"
#include "arena/run.h"
#include "arena/waiting.h"
#include "os/purge.h"
#include "os/report.h"
#include "os/thread.h"

/* Ranges collected under the lock before it is let go for the system calls. */
#define BATCH_RANGES 16
/* Dirty slabs, 64 MiB, in a batch at most: fork waits for it, and holds all locks meanwhile. */
#define BATCH_SLABS ((size_t)1024)

/* When the OS has taken none of so many ranges, one after the other, it is left alone for a while. */
#define RANGES_IN_VAIN 64

/* A huge page with so many dirty slabs is worth being split for them. */
#define HUGE_PAGE_WORTH_SLABS 28

/* Why slabs are purged: because they lie idle or the program says so, or for the bound; of these, WITHHELD
 * where there was more grace than was allowed. Only slabs purged for the bound count as missed when they are
 * taken again. */
enum reason { TOLD, OVER_BOUND, WITHHELD };

struct range {
    struct region *region;
    size_t first_slab, slabs;
    size_t first_bitmap, bitmaps; /* whole superslabs whose block bitmaps go too */
    bool split;                   /* an end of it is a part of a huge page */
};

/* Takes slabs first..last of a superslab out of circulation, neither free nor dirty until they are purged,
 * and adds them to the batch, to its last range if they are neighbours. False if the batch is full. */
static bool collect_run(struct region *r, size_t superslab, unsigned first, unsigned last,
                        struct range *batch, size_t *count) {
    struct superslab *state = &r->states[superslab];
    size_t begin = superslab * SLABS_PER_SUPERSLAB + first;
    size_t end = superslab * SLABS_PER_SUPERSLAB + last + 1;
    struct range *range = *count > 0 ? &batch[*count - 1] : NULL;
    if (range == NULL || range->region != r || range->first_slab != end) {
        if (*count == BATCH_RANGES) {
            return false;
        }
        range = &batch[(*count)++];
        *range = (struct range){.region = r, .first_slab = end};
    }
    range->slabs += end - begin;
    range->first_slab = begin;
    bool whole = first == 0 && last == SLABS_PER_SUPERSLAB - 1;
    range->split = (!whole && dense_superslab_is_huge(r, superslab)) || range->split;
    if (whole && bitmap_has(r->bitmaps_touched, superslab) &&
        (range->bitmaps == 0 || range->first_bitmap == superslab + 1)) {
        bitmap_drop(r->bitmaps_touched, superslab);
        range->first_bitmap = superslab;
        range->bitmaps++;
    }
    uint32_t mask = bits32_below(last - first + 1) << first;
    arena.dirty_slabs -= bit_count(state->dirty & mask);
    dense_note_ahead(state, state->ahead & ~mask);
    state->out |= state->dirty & mask;
    state->dirty &= ~mask;
    state->free &= ~mask;
    region_note(r, superslab);
    return true;
}

/* Adds the dirty slabs of a superslab to the batch, and with them the clean ones if all are free. False if
 * the batch is full. */
static bool collect(struct region *r, size_t superslab, struct range *batch, size_t *count) {
    const struct superslab *state = &r->states[superslab];
    if (state->free == UINT32_MAX) {
        return collect_run(r, superslab, 0, SLABS_PER_SUPERSLAB - 1, batch, count);
    }
    /* From the top, because the caller walks downwards and neighbours then meet. */
    while (state->dirty != 0) {
        unsigned last = bit_highest(state->dirty);
        uint32_t gap = ~state->dirty & bits32_below(last);
        unsigned first = gap == 0 ? 0 : bit_highest(gap) + 1;
        if (!collect_run(r, superslab, first, last, batch, count)) {
            return false;
        }
    }
    return true;
}

/* Takes the slabs of a range, which has been purged or refused, back into circulation. Returns how many of
 * them may have been resident. */
static size_t put_back(const struct range *range, bool purged, enum reason reason) {
    size_t dirty = 0;
    size_t slab = range->first_slab;
    size_t end = slab + range->slabs;
    while (slab < end) {
        size_t superslab = slab / SLABS_PER_SUPERSLAB;
        struct superslab *state = &range->region->states[superslab];
        unsigned first = (unsigned)(slab % SLABS_PER_SUPERSLAB);
        unsigned here = (unsigned)min_size(end - slab, SLABS_PER_SUPERSLAB - first);
        uint32_t mask = bits32_below(here) << first;
        dirty += bit_count(state->out & mask);
        if (!purged) {
            state->dirty |= state->out & mask;
            arena.dirty_slabs += bit_count(state->out & mask);
        } else if (here == SLABS_PER_SUPERSLAB) {
            dense_note_purged(range->region, superslab);
        }
        if (purged && reason != TOLD) {
            retention_note_purged(&arena.retention, &state->missed, state->out & mask, reason == WITHHELD);
        }
        state->out &= ~mask;
        state->free |= mask & ~state->behind;
        region_note(range->region, superslab);
        slab += here;
    }
    return dirty;
}

/* The OS has not taken the bitmaps of a range: they may still be resident. */
static void put_bitmaps_back(const struct range *range) {
    for (size_t s = range->first_bitmap; s < range->first_bitmap + range->bitmaps; s++) {
        bitmap_add(range->region->bitmaps_touched, s);
    }
}

/* Only the library's own thread may open a file: it has descriptors of its own. */
static void purge_many(const struct iovec *ranges, size_t count, bool *done) {
    os_purge_many(ranges, count, os_thread_is_own(), done);
}

/* What a batch has purged at most: for each range its slabs and its bitmaps. */
#define PURGES_MOST (2 * BATCH_RANGES)

/* Purges a batch, without the arena's lock. `done`, which has room for PURGES_MOST, gets whether the OS has
 * taken the slabs of each range, and behind them the bitmaps of those that have some. */
static void purge_batch(const struct range *batch, size_t count, bool *done) {
    struct iovec ranges[PURGES_MOST];
    size_t n = count;
    for (size_t i = 0; i < count; i++) {
        const struct range *range = &batch[i];
        const struct region *r = range->region;
        uintptr_t start = r->base + (range->first_slab << SLAB_SHIFT);
        size_t bytes = range->slabs << SLAB_SHIFT;
        if (range->split) {
            dense_split(start, start + bytes);
        }
        ranges[i] = (struct iovec){(void *)start, bytes};
        if (range->bitmaps > 0) {
            ranges[n++] = (struct iovec){r->bitmaps + range->first_bitmap * SUPERSLAB_BITMAPS_BYTES,
                                         range->bitmaps * SUPERSLAB_BITMAPS_BYTES};
        }
    }
    purge_many(ranges, n, done);
    for (size_t i = 0; i < count; i++) {
        if (!done[i]) { /* said here, because to write may take long */
            report_fallback(FALLBACK_PURGE_FAILED, batch[i].slabs << SLAB_SHIFT);
        }
    }
}

/* How far a purge has come. From the first refusal on it tries nothing twice; until then what is freed
 * meanwhile counts, too. */
struct progress {
    struct region *region; /* everything before superslab `end` of it is still to be tried; NULL: all is */
    size_t end;
    unsigned least;   /* superslabs on huge pages with fewer dirty slabs than that are left out */
    size_t refused;   /* slabs */
    unsigned in_vain; /* ranges refused since the last one that was taken */
    size_t purged;    /* slabs */
    enum reason reason;
};

/* Fills the batch, from the highest address down, until no more than `target` slabs stay dirty. False if the
 * batch is full. */
static bool gather(size_t target, const struct progress *from, struct range *batch, size_t *count) {
    for (struct region *r = from->region != NULL ? from->region : arena.newest; r != NULL; r = r->previous) {
        size_t end = r == from->region ? from->end : r->committed;
        for (size_t w = (end + 63) / 64; w-- > 0;) {
            uint64_t below = bits_below((unsigned)min_size(end - w * 64, 64));
            for (uint64_t bits = (r->dirty[w] | r->ahead[w]) & below; bits != 0;) {
                unsigned highest = bit_highest(bits);
                size_t superslab = w * 64 + highest;
                uint64_t bit = (uint64_t)1 << highest;
                bits &= ~bit;
                if (arena.dirty_slabs <= target) {
                    return true;
                }
                if (((r->huge[w] & bit) == 0 || bit_count(r->states[superslab].dirty) >= from->least) &&
                    !collect(r, superslab, batch, count)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Fills the batch as gather does, but with parts of huge pages last; returns the number of ranges. */
static size_t gather_in_turn(size_t target, struct progress *progress, struct range *batch) {
    size_t count = 0;
    if (gather(target, progress, batch, &count) && progress->least > 0) {
        struct progress rest = {0};
        gather(target, &rest, batch, &count);
        progress->least = progress->region != NULL ? 0 : progress->least;
    }
    return count;
}

static void note_done(const struct range *batch, size_t count, const bool *done, struct progress *progress) {
    size_t bitmaps = count;
    for (size_t i = 0; i < count; i++) {
        size_t slabs = put_back(&batch[i], done[i], progress->reason);
        if (batch[i].bitmaps > 0 && !done[bitmaps++]) {
            put_bitmaps_back(&batch[i]);
        }
        if (done[i]) {
            progress->purged += slabs;
            arena.purges++;
            arena.purged_bytes += slabs << SLAB_SHIFT;
            progress->in_vain = 0;
        } else {
            progress->refused += batch[i].slabs;
            progress->in_vain++;
        }
    }
    if (progress->refused > 0) {
        /* The region still is there, because its slabs were out of circulation until now, and will be until
         * the lock is let go. */
        progress->region = batch[count - 1].region;
        progress->end = batch[count - 1].first_slab / SLABS_PER_SUPERSLAB;
    }
}

COLD size_t arena_refused_slabs(void) {
    if (arena.refused_slabs > 0 && !backoff_holds(&arena.refused)) {
        arena.refused_slabs = 0;
    }
    return arena.refused_slabs;
}

COLD void arena_forget_refused(void) {
    arena.refused_slabs = 0;
    arena.left.region = NULL;
    backoff_end(&arena.refused);
}

static void note_refused(size_t slabs) {
    arena.refused_slabs = slabs;
    backoff_begin(&arena.refused);
}

/* True if the purge resumes where the last one was given up. */
static bool go_on_where_left(struct progress *progress) {
    if (LIKELY(arena.left.region == NULL)) {
        return false;
    }
    progress->region = arena.left.region;
    progress->end = arena.left.superslab;
    progress->refused = arena.left.slabs;
    progress->least = 0;
    return true;
}

/* Purges as arena_purge_to does, until `in_vain_most` ranges in a row were refused. As many slabs as are too
 * many now: what others free meanwhile is theirs to purge, or this would go on for as long as they do. */
static size_t purge_to(size_t target, struct progress progress, unsigned in_vain_most) {
    size_t beside = arena_refused_slabs();
    size_t most = arena.dirty_slabs - min_size(arena.dirty_slabs, target + beside);
    bool goes_on = go_on_where_left(&progress);
    /* Not while somebody waits for an end of all purging, which must come: fork holds every other lock. */
    while (arena.dirty_slabs > target + beside && progress.purged < most &&
           atomic_load_explicit(&arena.end_waiters, memory_order_relaxed) == 0) {
        struct range batch[BATCH_RANGES];
        bool left_alone = progress.in_vain >= in_vain_most;
        size_t now = min_size(min_size(most - progress.purged, BATCH_SLABS), arena.dirty_slabs);
        size_t to = max_size(target + beside, arena.dirty_slabs - now);
        size_t count = left_alone ? 0 : gather_in_turn(to, &progress, batch);
        if (count == 0) {
            size_t refused = left_alone ? SIZE_MAX : progress.refused;
            note_refused(min_size(refused, arena.dirty_slabs - target));
            goes_on = left_alone; /* the next at the highest address, where this one came to the end */
            break;
        }
        arena_begin_purging();
        lock_release(&arena.lock);
        bool done[PURGES_MOST];
        purge_batch(batch, count, done);
        lock_acquire(&arena.lock);
        arena_end_purging();
        note_done(batch, count, done, &progress);
    }
    arena.left = (struct left){goes_on ? progress.region : NULL, progress.end, progress.refused};
    if (beside == 0 && progress.purged > 0 && progress.refused == 0) {
        backoff_end(&arena.refused);
    }
    return progress.purged;
}

size_t arena_purge_to(size_t target) {
    return purge_to(target, (struct progress){0}, RANGES_IN_VAIN);
}

void arena_purge_over_bound(size_t target, bool withheld) {
    struct progress progress = {.least = HUGE_PAGE_WORTH_SLABS, .reason = withheld ? WITHHELD : OVER_BOUND};
    (void)purge_to(target, progress, RANGES_IN_VAIN);
}

RARE void arena_purge_all(void) {
    lock_acquire(&arena.lock);
    arena_forget_refused(); /* the program has asked for it: all is tried */
    behind_show_all();
    retention_forget_breath(&arena.retention);
    (void)purge_to(0, (struct progress){0}, UINT32_MAX);
    lock_release(&arena.lock);
}

void arena_purge_holes(const struct iovec *holes, size_t count, bool *done) {
    bool split[ARENA_HOLES_MOST];
    lock_acquire(&arena.lock);
    for (size_t i = 0; i < count; i++) {
        split[i] = dense_is_huge((uintptr_t)holes[i].iov_base);
    }
    lock_release(&arena.lock);
    for (size_t i = 0; i < count; i++) {
        if (split[i]) {
            uintptr_t start = (uintptr_t)holes[i].iov_base;
            dense_split(start, start + holes[i].iov_len);
        }
    }
    purge_many(holes, count, done);
    lock_acquire(&arena.lock);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = done[i] ? holes[i].iov_len : 0;
        arena.purges += done[i];
        arena.purged_bytes += bytes;
        arena.hole_bytes += bytes;
    }
    lock_release(&arena.lock);
}

COLD bool arena_purge_taken(struct slab *head) {
    struct iovec run = {(void *)arena_address(head), (size_t)head->run_slabs << SLAB_SHIFT};
    bool done = false;
    arena_purge_holes(&run, 1, &done);
    return done;
}
