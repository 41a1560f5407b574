#include "arena/huge_price.h"

#include "base/bits.h"

#define SLOW_NS 1500000u
#define PAUSE_LEAST 16u
#define PAUSE_MOST 1024u

static size_t to_skip, last_pause; /* superslabs; under the arena's lock */

bool huge_price_allows(size_t superslabs) {
    bool allows = to_skip == 0;
    to_skip -= min_size(superslabs, to_skip);
    return allows;
}

bool huge_price_note(bool given, uint64_t ns) {
    bool quick = given && ns < SLOW_NS;
    last_pause = quick ? 0 : last_pause == 0 ? PAUSE_LEAST : min_size(2 * last_pause, PAUSE_MOST);
    to_skip = last_pause;
    return quick;
}
