#include "arena/huge_price.h"

#include "base/bits.h"
#include "os/clock.h"

/* A huge page that takes so long is slow. */
#define SLOW_NS 1500000u
/* The pause after a slow one: superslabs at first and at most, because it doubles; and a time. */
#define PAUSE_LEAST_SUPERSLABS ((size_t)16)
#define PAUSE_MOST_SUPERSLABS ((size_t)1024)
#define PAUSE_MOST_MS 1000

/* Under the arena's lock. */
static size_t to_skip, last_pause; /* superslabs */
static uint64_t pause_end_ms;
static uint32_t turn; /* pauses so far */

static size_t left_to_skip(void) {
    if (UNLIKELY(to_skip > 0) && os_now_ms() >= pause_end_ms) {
        to_skip = 0;
    }
    return to_skip;
}

size_t huge_price_skip(size_t superslabs) {
    size_t skipped = min_size(superslabs, left_to_skip());
    to_skip -= skipped;
    return skipped;
}

bool huge_price_skips_all(size_t superslabs) {
    return left_to_skip() >= superslabs;
}

uint32_t huge_price_turn(void) {
    return turn;
}

bool huge_price_note(uint32_t begun_in, bool given, uint64_t ns) {
    bool quick = given && ns < SLOW_NS;
    if (begun_in != turn) {
        return quick; /* others that were under way have said the same, or it is out of date */
    }
    if (quick) {
        last_pause = 0;
    } else {
        last_pause =
            last_pause == 0 ? PAUSE_LEAST_SUPERSLABS : min_size(2 * last_pause, PAUSE_MOST_SUPERSLABS);
        to_skip = last_pause;
        pause_end_ms = os_now_ms() + PAUSE_MOST_MS;
        turn++;
    }
    return quick;
}
