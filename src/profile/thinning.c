#include "profile/thinning.h"

#include "os/os.h"
#include "profile/internal.h"

/* Samples after which the clock is looked at, and how long they take at least. */
#define WINDOW_SAMPLES 512
#define WINDOW_MS (WINDOW_SAMPLES * 1000 / SAMPLES_A_SECOND)
/* A single window may have been a burst. */
#define GROWTH_MOST 16

uint64_t thinning_interval(void) {
    if (++profile.recent < WINDOW_SAMPLES) {
        return 0;
    }
    uint64_t interval = profile.interval;
    uint64_t now_ms = os_now_ms();
    uint64_t took_ms = now_ms - profile.recent_ms;
    profile.recent = 0;
    profile.recent_ms = now_ms;
    for (unsigned growth = 1; took_ms * growth < WINDOW_MS && growth < GROWTH_MOST; growth *= 2) {
        interval *= 2;
    }
    return interval > profile.interval && interval <= PROFILE_INTERVAL_MOST ? interval : 0;
}

static double chance_to_stay(double size, uint64_t interval) {
    return poisson_chance(size, interval) / poisson_chance(size, profile.interval);
}

/* A whole number, of which `count` times `chance` is the mean. */
static uint64_t thinned(uint64_t count, double chance) {
    double exact = (double)count * chance;
    uint64_t whole = (uint64_t)exact;
    return whole + (poisson_random(&profile.random) < exact - (double)whole);
}

static void drop(struct record *record) {
    struct figures *f = &record->tally->figures;
    if (f->total_blocks >= f->live_blocks && f->total_bytes >= f->live_bytes) {
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

/* Of the freed ones only the sums are known. The total of a tally may lack its live ones: of a block that has
 * grown, what was sampled is counted with blocks of the size that it grew by. */
static void thin_freed(struct figures *f, uint64_t interval) {
    bool all = f->total_blocks >= f->live_blocks && f->total_bytes >= f->live_bytes;
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
