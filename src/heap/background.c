#include "heap/background.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "arena/tails.h"
#include "heap/cached.h"
#include "heap/event.h"
#include "heap/holes.h"
#include "heap/parcel.h"
#include "heap/reclaim.h"
#include "heap/relief.h"
#include "heap/stock.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/credentials.h"
#include "os/purge.h"
#include "os/thread.h"

/* Longest sleep between two looks at the option and the credentials. */
#define SLEEP_MOST_MS 250
/* What os_now_ms may be behind. */
#define CLOCK_GRAIN_MS 4
/* Sleep between two looks at sleeping threads while all cache too much, but as long at least as a look takes,
 * and twice as long as before after each that finds none to take. */
#define PRESSED_SLEEP_MS ((uint64_t)10)
/* Units of work on holes in a period: some 20 ms of the background thread, or 0.1 ms of whoever frees in a
 * program without one. */
#define HOLES_UNITS 200000
#define HOLES_UNITS_IN_PASSING 1000
/* Blocks that go from stocks to their slabs in passing: in each period some 1.3 ms of them, or an eighth of
 * all, reckoned as if each were of the size of a pointer, if that is more; and 0.3 ms with each call of
 * relieve. */
#define STOCKS_IN_PASSING ((size_t)65536)
#define STOCKS_IN_PASSING_PART (8 * sizeof(void *))
#define STOCKS_RELIEVED ((size_t)16384)
/* Tails of large blocks that one free gives back, 2 to 7 us each, in at most as many steps of some 20 us. */
#define TAILS_IN_PASSING 64

static COLD void purge_in_passing(void) {
    if (option_number(OPTION_BACKGROUND_THREAD) != 0) { /* or no file may be opened */
        os_purge_look_for_filter();
    }
    int64_t stocked = arena_stocked();
    stocks_look_after(
        max_size(STOCKS_IN_PASSING, stocked > 0 ? (size_t)stocked / STOCKS_IN_PASSING_PART : 0));
    (void)holes_purge_idle(HOLES_UNITS_IN_PASSING);
    (void)tails_purge_excess(TAILS_IN_PASSING);
}

static COLD bool relieve(void) {
    if (arena_stock_room() < 0) {
        stocks_relieve(STOCKS_RELIEVED);
    }
    bool more = tails_purge_excess(TAILS_IN_PASSING);
    return relief_look_everywhere() || more;
}

/* The library's thread's: how the last look at what all threads cache ended, and the sleep after it. */
static struct {
    uint64_t pause_ms;
    bool too_much;
} pressed = {.pause_ms = PRESSED_SLEEP_MS};

/* As os_thread_sleep, but that it wakes up now and then to look at sleeping threads, because all threads may
 * cache too much. */
static RARE bool sleep_and_reclaim(uint64_t ms) {
    uint64_t until = os_now_ms() + ms;
    bool goes_on = true;
    cached_note_seen(true);
    for (uint64_t now = until - ms; goes_on && now < until; now = os_now_ms()) {
        bool too_much = cached_exceeds();
        bool taken = too_much && heap_reclaim_pressed();
        bool again = taken || (too_much && !pressed.too_much);
        pressed.pause_ms = again ? PRESSED_SLEEP_MS : min_size(pressed.pause_ms * 2, SLEEP_MOST_MS);
        pressed.too_much = too_much;
        goes_on = os_thread_sleep(min_size(max_size(pressed.pause_ms, os_now_ms() - now), ms));
    }
    return goes_on;
}

/* Sleeps for `ms`, with looks at sleeping threads where all may cache too much; false if it is to end. */
static bool sleep_for(uint64_t ms) {
    if (cached_may_exceed() && option_bool(OPTION_RECLAIM)) {
        return sleep_and_reclaim(ms);
    }
    pressed.pause_ms = PRESSED_SLEEP_MS;
    pressed.too_much = false;
    cached_note_seen(false);
    return os_thread_sleep(ms);
}

/* Sleeps for a period of the decay; false if the program's credentials have changed meanwhile, or it wants no
 * such thread, any more or for the moment. It sleeps for short times, because options may change, and because
 * privileges that the program has dropped must not live on in this thread: the next one inherits those of a
 * thread of the program's. */
static bool sleep_in_background(uint64_t credentials) {
    uint64_t begun = os_now_ms();
    uint64_t slept = 0;
    /* It may be woken early (see cached.h), and is not to sleep once more for what the clock leaves out. */
    for (; slept < decay_period_ms(); slept = os_now_ms() - begun + CLOCK_GRAIN_MS) {
        if (!sleep_for(min_size(decay_period_ms() - slept, SLEEP_MOST_MS))) {
            return false;
        }
        heap_event(HEAP_EVENT_IN_BACKGROUND);
        if (option_number(OPTION_BACKGROUND_THREAD) == 0 ||
            os_credentials(heap_some_thread()) != credentials) {
            os_purge_forget_look(); /* what has changed may be a filter, of which there was no notice */
            return false;
        }
    }
    return true;
}

static COLD void run_in_background(void) {
    uint64_t credentials = os_credentials(heap_some_thread());
    bool more = true;
    os_purge_look_for_filter();
    decay_begun();
    heap_reclaim_restart();
    while (more && sleep_in_background(credentials)) {
        bool parcels = parcels_look_after();
        stocks_look_after(SIZE_MAX);
        bool holes = holes_purge_idle(HOLES_UNITS);
        bool tails = tails_purge_excess(SIZE_MAX);
        more = decay_tick(heap_reclaim_idle() || parcels || holes || tails);
    }
    if (more) {
        stocks_relieve(SIZE_MAX); /* so that what was kept by the grace goes, too */
        decay_stop();
    }
    parcels_return_all(); /* parcels sent by threads that saw this one just before it ended */
}

void background_set_work(void) {
    decay_set_work(run_in_background, purge_in_passing, relieve);
}
