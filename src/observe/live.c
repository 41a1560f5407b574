#include "observe/live.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "base/bits.h"
#include "heap/event.h"
#include "observe/census.h"
#include "observe/counters.h"
#include "observe/document.h"
#include "observe/live_page.h"
#include "observe/request.h"
#include "observe/stats.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/report.h"
#include "os/signal.h"

#include <errno.h>

/* A process that ends sooner publishes nothing, nor does a shell that soon becomes another program: nobody
 * would remove what it left. */
#define FIRST_MS 50
/* A child of fork is about to call exec, as a rule, or to end without telling us. */
#define FIRST_IN_CHILD_MS 1000
/* Between publications: this, or this part of the age of the process, but at most that. */
#define INTERVAL_LEAST_MS 5
#define INTERVAL_PART_OF_AGE 64
#define INTERVAL_MOST_MS 100
/* ... and so many times as long as the last one took: half a percent of the time. What seems to have taken
 * longer than this allows for stood still meanwhile: stopped, suspended, without a processor. */
#define INTERVAL_COSTS 200
#define INTERVAL_FOR_COSTS_MOST_MS 3000
/* A process that grows or shrinks by so much, and by this part of what it has, publishes after this part of
 * the interval, and may be young: what it falls asleep with shall not be far from what was said last. Twice
 * the part after each such time, until the whole interval has gone by once, where the library's thread
 * publishes when the program sleeps: one that goes up and down all the time would spend a tenth of it on
 * that. */
#define CHANGE_BYTES ((size_t)4 << 20)
#define FIRST_CHANGE_BYTES ((size_t)32 << 20)
#define CHANGE_PART 32
/* So much, if it is half of what the process has, does not wait for a moment. */
#define ALL_CHANGE_BYTES ((size_t)64 << 20)
#define ALL_CHANGE_PART 2
#define CHANGE_INTERVAL_PART 16
/* Whether it is time for that is looked at after this part of OS_TICKS_SHORT. */
#define TICKS_PART_IF_CHANGED 16
/* So long a thread works on it at once. */
#define STEP_NS 100000
#define NEVER UINT64_MAX

/* When somebody shall look in next, in milliseconds of os_now_ms. relaxed: a hint; the handler of a signal
 * sets it, too */
static _Atomic uint64_t due_ms;
/* The same, if much has changed since, and how much memory was in use then. relaxed: hints */
static _Atomic uint64_t due_if_changed_ms;
static _Atomic size_t used_then;
/* os_ticks when anybody last looked whether it is due. relaxed: a hint */
static _Atomic uint64_t looked_ticks;
/* relaxed: set by the handler */
static _Atomic bool signalled;
static bool publishes; /* as the option says */

/* acquire and release between holders */
enum { NOBODY, SOMEBODY, HELD_FOR_EVER };
static _Atomic int holder;

/* Under `holder`. */
static struct {
    bool refused;         /* the page cannot be made, or must not be used any more */
    bool counting;        /* the census is under way */
    unsigned change_part; /* of the interval, after which a change publishes early; 0 before the first */
    bool of_parent;       /* the page is no more than what a publication under way needs until its end */
    uint64_t cost_ns;     /* of the publication so far */
    struct census census; /* that the next publication will have, as far as it is */
} live;

/* ---- Publishing ---------------------------------------------------------------------------------------- */

static void forget_page(void) {
    live_page_forget();
    live.counting = false;
    live.of_parent = false;
}

static uint64_t interval_for_costs_ms(uint64_t cost_ns) {
    return min_size(cost_ns / (1000000 / INTERVAL_COSTS), INTERVAL_FOR_COSTS_MOST_MS);
}

static uint64_t interval_ms(uint64_t now_ms) {
    uint64_t interval = (now_ms - loaded_ms()) / INTERVAL_PART_OF_AGE;
    interval = min_size(max_size(interval, INTERVAL_LEAST_MS), INTERVAL_MOST_MS);
    return max_size(interval, interval_for_costs_ms(live.cost_ns));
}

/* Some of the census, and the text when it is complete. Returns after how many milliseconds to go on. */
static uint64_t work(uint64_t now_ms) {
    struct census *census = &live.census;
    uint64_t begin = os_now_ns();
    if (!live.counting) {
        census_begin(census, false);
        live.counting = true;
        live.cost_ns = 0;
    }
    bool more;
    uint64_t spent;
    do {
        more = census_step(census);
        spent = os_now_ns() - begin;
    } while (more && spent < STEP_NS);
    live.cost_ns = spent; /* each step has a pause of its own */
    if (more) {
        return interval_for_costs_ms(spent);
    }
    live_page_publish(census);
    live.counting = false;
    live.cost_ns = os_now_ns() - begin;
    return interval_ms(now_ms);
}

/* The child of a handler that forks meanwhile would go on writing to its parent's file. Only for what needs
 * more of the system than a publication: that is made in sandboxes which end who blocks signals, too. */
static COLD void undisturbed(void (*task)(void)) {
    uint64_t signals;
    os_block_signals(&signals);
    task();
    os_restore_signals(&signals);
}

static void answer_request(void) {
    request_answer(live_page_now());
}

static void handle_request(void) {
    struct live_page *page = live_page_now();
    if (!request_waits(page) || !request_has_room()) {
        return;
    }
    if (live_page_credentials_changed()) {
        /* Whoever could write there when it was made shall not have done with today's rights what he may not.
         */
        live_page_remove();
        forget_page();
        live.refused = true;
        return;
    }
    undisturbed(answer_request);
}

/* ---- When ------------------------------------------------------------------------------------------------
 */

OFTEN static bool hold(int how) {
    int found = NOBODY;
    return atomic_compare_exchange_strong_explicit(&holder, &found, how, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Held. Returns after how many milliseconds to come again. */
static uint64_t serve(uint64_t now_ms, enum heap_event_place place) {
    if (place == HEAP_EVENT_IN_PROGRAM && atomic_exchange_explicit(&signalled, false, memory_order_relaxed)) {
        undisturbed(stats_write);
    }
    if (live.of_parent) {
        forget_page();
    }
    if (!publishes || live.refused) {
        /* A wish that only a thread of the program may fulfil is still there. */
        return atomic_load_explicit(&signalled, memory_order_relaxed) ? INTERVAL_LEAST_MS : NEVER;
    }
    if (live_page_now() == NULL && !live_page_make()) {
        live.refused = true;
        report_fallback(FALLBACK_NO_LIVE_PAGE, LIVE_FILE_BYTES);
        return NEVER;
    }
    uint64_t pause = work(now_ms);
    if (place == HEAP_EVENT_IN_PROGRAM) {
        handle_request();
    }
    return pause;
}

static COLD void serve_now(uint64_t now_ms, enum heap_event_place place) {
    int saved_errno = errno;
    if (os_in_own_process() && hold(SOMEBODY)) { /* another process has no part in this */
        /* Another step of a publication is not one of its own. */
        if (!live.counting) {
            bool early = now_ms < atomic_load_explicit(&due_ms, memory_order_relaxed);
            bool rarer = early && live.change_part > 1 && decay_is_on();
            live.change_part = rarer ? live.change_part / 2 : CHANGE_INTERVAL_PART;
        }
        /* First, so that a signal that comes meanwhile has the last word. */
        atomic_store_explicit(&due_ms, NEVER, memory_order_relaxed);
        uint64_t pause = serve(now_ms, place);
        uint64_t never = NEVER;
        atomic_store_explicit(&used_then, arena_used_bytes(), memory_order_relaxed);
        atomic_store_explicit(&due_if_changed_ms,
                              pause == NEVER ? NEVER : os_now_ms() + pause / live.change_part,
                              memory_order_relaxed);
        if (pause != NEVER) {
            atomic_compare_exchange_strong_explicit(&due_ms, &never, os_now_ms() + pause,
                                                    memory_order_relaxed, memory_order_relaxed);
        }
        atomic_store_explicit(&holder, NOBODY, memory_order_release);
    }
    errno = saved_errno;
}

static ALWAYS_INLINE bool has_changed_by(size_t least, size_t part) {
    size_t now = arena_used_bytes();
    size_t then = atomic_load_explicit(&used_then, memory_order_relaxed);
    size_t change = now > then ? now - then : then - now;
    return change > max_size(least, then / part);
}

OFTEN static bool much_has_changed(void) {
    bool first = atomic_load_explicit(&used_then, memory_order_relaxed) == 0;
    return has_changed_by(first ? FIRST_CHANGE_BYTES : CHANGE_BYTES, CHANGE_PART);
}

static NOINLINE bool all_has_changed(void) {
    return has_changed_by(ALL_CHANGE_BYTES, ALL_CHANGE_PART);
}

/* A young process would publish with each change, but for the millisecond. */
static NOINLINE bool is_due_for_change(uint64_t now_ms) {
    uint64_t due = atomic_load_explicit(&due_if_changed_ms, memory_order_relaxed);
    return now_ms > due || (now_ms == due && all_has_changed());
}

/* Events may come every few microseconds, and the clock of a small program is a system call. */
OFTEN static bool has_just_looked(bool changed) {
    uint64_t now = os_ticks();
    uint64_t since = now - atomic_load_explicit(&looked_ticks, memory_order_relaxed);
    if (since < (changed ? OS_TICKS_SHORT / TICKS_PART_IF_CHANGED : OS_TICKS_SHORT)) {
        return true;
    }
    atomic_store_explicit(&looked_ticks, now, memory_order_relaxed);
    return false;
}

OFTEN static void on_event(enum heap_event_place place) {
    bool changed = much_has_changed();
    if (has_just_looked(changed) && !(changed && all_has_changed())) {
        return;
    }
    uint64_t now = arena_is_large() ? os_now_ms() : os_now_ms_by_call();
    if (UNLIKELY(now >= atomic_load_explicit(&due_ms, memory_order_relaxed)) ||
        UNLIKELY(changed && is_due_for_change(now))) {
        serve_now(now, place);
    }
}

/* Everything else is done by the next thread that comes to a slow path. */
static void at_signal(int number) {
    (void)number;
    atomic_store_explicit(&signalled, true, memory_order_relaxed);
    atomic_store_explicit(&due_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&looked_ticks, 0, memory_order_relaxed);
}

/* The page is the parent's, and so is whoever held it, unless the caller itself does. */
static void begin_in_child(bool alone) {
    if (alone && atomic_load_explicit(&holder, memory_order_relaxed) == SOMEBODY) {
        live_page_make_private();
        live.of_parent = true;
    } else {
        forget_page();
        atomic_store_explicit(&holder, NOBODY, memory_order_relaxed);
    }
    live.refused = false;
    if (publishes) {
        uint64_t first = os_now_ms() + FIRST_IN_CHILD_MS;
        atomic_store_explicit(&due_ms, first, memory_order_relaxed);
        atomic_store_explicit(&due_if_changed_ms, first, memory_order_relaxed);
    }
}

OFTEN void live_start(int stats_signal) {
    publishes = option_bool(OPTION_LIVE);
    counters_begin_at(loaded_ms());
    bool listens = stats_signal != 0 && os_on_signal(stats_signal, at_signal);
    if (stats_signal != 0 && !listens) {
        report_line("HAKMEM_STATS_SIGNAL: this signal cannot be used for that; ignored");
    }
    if (publishes || listens) {
        atomic_store_explicit(&due_ms, publishes ? loaded_ms() + FIRST_MS : NEVER, memory_order_relaxed);
        heap_child_listener = begin_in_child;
        atomic_store_explicit(&heap_event_listener, on_event, memory_order_relaxed);
    }
}

/* Milliseconds that a publication or an answer which is under way gets. */
#define END_PATIENCE 100

OFTEN void live_end(void) {
    if (!publishes || !os_in_own_process()) {
        return;
    }
    /* For ever, because threads that still run must not make another page. */
    bool held = hold(HELD_FOR_EVER);
    for (int i = 0; i < END_PATIENCE && !held; i++) {
        os_sleep_ms(1);
        held = hold(HELD_FOR_EVER);
    }
    if (held && live_page_now() != NULL && !live.of_parent) {
        live_page_remove();
    }
}
