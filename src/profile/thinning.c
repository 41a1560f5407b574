#include "profile/thinning.h"

#include "os/clock.h"
#include "profile/internal.h"
#include "profile/poisson.h"

/* Samples are counted in windows, each of a multiple of WINDOW_SAMPLES, and of at least WINDOW_MS. */
#define WINDOW_SAMPLES 64
#define WINDOW_MS 5
/* If samples come so many times too fast, the interval is made so many times as long at once: no program
 * writes to what it allocates at such a rate, so that not much can be in use. */
#define MUCH_TOO_FAST 8
#define INTERVAL_MOST ((uint64_t)16 << 20)

/* How many times as fast as SAMPLES_A_SECOND the samples of a window came, rounded down. */
static uint64_t haste_of(uint64_t samples, uint64_t took_ms) {
    return samples * 1000 / (took_ms * SAMPLES_A_SECOND);
}

unsigned thinning_factor(void) {
    if (++profile.recent % WINDOW_SAMPLES != 0) {
        return 1;
    }
    uint64_t now_ms = os_now_ms();
    uint64_t took_ms = now_ms - profile.recent_ms;
    if (took_ms < WINDOW_MS) {
        return 1;
    }
    /* The slower one of two windows counts, because a burst is over before there are two. */
    uint64_t now = haste_of(profile.recent, took_ms);
    uint64_t haste = min_size(now, profile.haste);
    profile.haste = now;
    profile.recent = 0;
    profile.recent_ms = now_ms;
    unsigned wanted = haste >= MUCH_TOO_FAST ? MUCH_TOO_FAST : 2;
    unsigned factor = (unsigned)min_size(wanted, INTERVAL_MOST / profile.interval);
    if (haste == 0 || factor < 2) {
        return 1;
    }
    profile.haste /= factor;
    return factor;
}

/* How likely it is that a sample of `size` would have been taken with the longer `interval`, too. */
static double chance_to_stay(double size, uint64_t interval) {
    return poisson_chance(size, interval) / poisson_chance(size, profile.interval);
}

/* A random whole number whose mean is `count` times `chance`. */
static uint64_t thinned(uint64_t count, double chance) {
    double exact = (double)count * chance;
    uint64_t whole = (uint64_t)exact;
    return whole + (poisson_random(&profile.random) < exact - (double)whole);
}

/* Whether the total of a tally contains its live blocks. It need not: of a block that has grown, what was
 * sampled is in the total of the size that it grew by. */
static bool total_has_live(const struct figures *f) {
    return f->total_blocks >= f->live_blocks && f->total_bytes >= f->live_bytes;
}

/* Takes a live block out of all figures. The record stays: the block still has its shadow. */
static void drop(struct record *record) {
    struct figures *f = &record->tally->figures;
    if (total_has_live(f)) {
        f->total_blocks--;
        f->total_bytes -= record->size;
    }
    f->live_blocks--;
    f->live_bytes -= record->size;
    record->run = profile.run - 1; /* counted nowhere, as if of an earlier run */
}

static void thin_live(uint64_t interval) {
    double bytes = 0;
    for (size_t i = 0; i < profile.live.capacity; i++) {
        struct record *record = &profile.live.slots[i];
        if (record->tally == NULL || record->run != profile.run) {
            continue;
        }
        double size = (double)record->size;
        if (poisson_random(&profile.random) < chance_to_stay(size, interval)) {
            bytes += size * poisson_weight(size, interval);
        } else {
            drop(record);
        }
    }
    atomic_store_explicit(&profile.bytes, (uint64_t)bytes, memory_order_relaxed);
}

/* Thins the freed blocks of a tally, of which only the sums are known. */
static void thin_freed(struct figures *f, uint64_t interval) {
    bool all = total_has_live(f);
    uint64_t live_blocks = all ? f->live_blocks : 0;
    uint64_t live_bytes = all ? f->live_bytes : 0;
    uint64_t blocks = f->total_blocks - live_blocks;
    double size = blocks == 0 ? 0 : (double)(f->total_bytes - live_bytes) / (double)blocks;
    uint64_t staying = size == 0 ? 0 : thinned(blocks, chance_to_stay(size, interval));
    f->total_blocks = live_blocks + staying;
    f->total_bytes = live_bytes + (uint64_t)((double)staying * size);
}

void thinning_to(uint64_t interval) {
    thin_live(interval);
    for (struct origin *origin = profile.origins.newest; origin != NULL; origin = origin->older) {
        for (struct tally *tally = origin->tallies; tally != NULL; tally = tally->next) {
            thin_freed(&tally->figures, interval);
        }
    }
    profile.interval = interval;
}
