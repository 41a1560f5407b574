#include "observe/live.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "base/bits.h"
#include "heap/event.h"
#include "heap/sampling.h"
#include "observe/census.h"
#include "observe/counters.h"
#include "observe/live_page.h"
#include "observe/request.h"
#include "observe/stats.h"
#include "observe/uptime.h"
#include "options/options.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/report.h"
#include "os/signal.h"

#include <errno.h>

/* The age at which a process first publishes, in milliseconds. One that ends sooner publishes nothing, nor
 * does a shell that soon becomes another program: nobody would remove what it left. */
#define FIRST_MS 50
/* FIRST_MS for a child of fork, which as a rule is about to call exec, or to end without running handlers. */
#define FIRST_IN_CHILD_MS 1000
/* The interval between publications: this part of the age of the process, within these bounds. */
#define INTERVAL_LEAST_MS 5
#define INTERVAL_PART_OF_AGE 64
#define INTERVAL_MOST_MS 100
/* The interval is also so many times as long as the last publication took, so that these are half a percent
 * of the time; but no longer than the second figure, since a publication that seems to have taken more than
 * that allows for stood still meanwhile: stopped, suspended, without a processor. */
#define INTERVAL_COSTS 200
#define INTERVAL_FOR_COSTS_MOST_MS 3000
/* A process that has grown or shrunk by more than CHANGE_BYTES (before it first publishes:
 * FIRST_CHANGE_BYTES), and by more than one part in CHANGE_PART, publishes early, after one part in
 * CHANGE_INTERVAL_PART of the interval and at any age: what it falls asleep with shall not be far from what
 * was published last. Where the library's thread runs, which publishes when the program sleeps, each early
 * publication doubles the time until the next, until a whole interval has gone by: a program that goes up and
 * down all the time would otherwise spend a tenth of it on publishing. */
#define CHANGE_BYTES ((size_t)4 << 20)
#define FIRST_CHANGE_BYTES ((size_t)32 << 20)
#define CHANGE_PART 32
/* A change by more than this, and by more than one part in ALL_CHANGE_PART, is published without the wait for
 * the next millisecond and for ticks. */
#define ALL_CHANGE_BYTES ((size_t)64 << 20)
#define ALL_CHANGE_PART 2
#define CHANGE_INTERVAL_PART 16
/* Publications in one millisecond, at most: a program may go up and down by that much with each call. */
#define AT_ONCE_MOST 4
/* After a change the clock is looked at once in this part of OS_TICKS_SHORT. */
#define TICKS_PART_IF_CHANGED 16
/* How long a thread works on a publication at a time, and how often in a row where the program waits for
 * it: 0.1 s. */
#define STEP_NS 100000
#define STEPS_MOST 1000
/* How long such a program waits for a thread that is publishing. */
#define HOLDER_PATIENCE_MS 10
#define NEVER UINT64_MAX

/* When a thread shall next call serve_now, in milliseconds of os_now_ms. relaxed everywhere: a hint; the
 * handler of a signal sets it, too */
static _Atomic uint64_t due_ms;
/* When a thread shall call serve_now if what the program holds is far from held_then, what it was at the last
 * call. relaxed everywhere: hints */
static _Atomic uint64_t due_if_changed_ms;
static _Atomic size_t held_then;
/* os_ticks when a thread last read the clock. relaxed everywhere: a hint */
static _Atomic uint64_t looked_ticks;
/* The signal for the statistics has come. relaxed everywhere: a wish that needs nothing else */
static _Atomic bool signalled;
/* A request waits for HEAP_EVENT_UNLOCKED. relaxed everywhere: a hint */
static _Atomic bool waits_unlocked;
static bool publishes; /* the option, as it was before main */

/* Who may use `live` and the page. acquire in hold() pairs with the release in serve_now. */
enum { NOBODY, SOMEBODY, WRITES_STATISTICS, HELD_FOR_EVER };
static _Atomic int holder;

/* For the holder only. */
static struct {
    bool unlocked;        /* the holder holds no lock */
    bool refused;         /* the page cannot be made, or must not be used any more */
    bool counting;        /* the census is under way */
    unsigned change_part; /* a change publishes after 1/change_part of the interval; 0 before the first */
    uint64_t change_due;  /* due_if_changed_ms was set to that `at_once` times */
    unsigned at_once;
    bool of_parent;   /* in a child: the page stays only until the publication under way has ended */
    uint64_t cost_ns; /* what the last step of a publication took, or the last publication in its last step */
    struct census census; /* of the next publication, as far as it is */
} live;

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

/* Counts some of the census, and publishes it when it is complete. Returns after how many milliseconds
 * to call it again. */
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
    live.cost_ns = spent; /* of this step only: each has a pause of its own */
    if (more) {
        return interval_for_costs_ms(spent);
    }
    live_page_publish(census);
    live.counting = false;
    live.cost_ns = os_now_ns() - begin;
    return interval_ms(now_ms);
}

/* Calls `task`, which waits for nobody for long, with signals blocked: the child of a handler that forks
 * meanwhile would go on writing to its parent's file. Not for publications, which are made also in sandboxes
 * that end whoever blocks signals. */
static COLD void undisturbed(void (*task)(void)) {
    uint64_t signals;
    os_block_signals(&signals);
    task();
    os_restore_signals(&signals);
}

/* For the holder. */
static RARE void write_statistics(void) {
    atomic_store_explicit(&holder, WRITES_STATISTICS, memory_order_relaxed);
    stats_write_in_time();
    atomic_store_explicit(&holder, SOMEBODY, memory_order_relaxed);
}

static void answer_request(void) {
    if (!request_answer(live_page_now(), live.unlocked)) {
        atomic_store_explicit(&waits_unlocked, true, memory_order_relaxed);
        sampling_come_soon();
    }
}

static void handle_request(enum heap_event_place place) {
    struct live_page *page = live_page_now();
    atomic_store_explicit(&waits_unlocked, false, memory_order_relaxed);
    if (!request_waits(page) || !request_has_room()) {
        return;
    }
    if (live_page_credentials_changed()) {
        /* Whoever could write to the page when it was made must not use the rights that
         * the process has now. */
        live_page_remove();
        forget_page();
        live.refused = true;
        return;
    }
    live.unlocked = place != HEAP_EVENT_IN_PROGRAM;
    undisturbed(answer_request);
}

/* Whether to become the holder is worth a wait. */
static COLD bool is_held_for_now(void) {
    int how = atomic_load_explicit(&holder, memory_order_relaxed); /* relaxed: a hint */
    return how == SOMEBODY || how == WRITES_STATISTICS;
}

/* Makes the caller the holder, SOMEBODY or HELD_FOR_EVER, without waiting; false if there is one. */
OFTEN static bool hold(int how) {
    int found = NOBODY;
    return atomic_compare_exchange_strong_explicit(&holder, &found, how, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Does what is due; the caller is the holder. Returns after how many milliseconds to come again. */
static uint64_t serve(uint64_t now_ms, enum heap_event_place place) {
    if (place != HEAP_EVENT_IN_BACKGROUND && atomic_load_explicit(&signalled, memory_order_relaxed) &&
        request_has_room() && atomic_exchange_explicit(&signalled, false, memory_order_relaxed)) {
        undisturbed(write_statistics);
    }
    if (live.of_parent) {
        forget_page();
    }
    if (!publishes || live.refused) {
        /* Soon, if there still is a signal to answer, which only a thread of the program with the stack for
         * it may do. */
        return atomic_load_explicit(&signalled, memory_order_relaxed) ? INTERVAL_LEAST_MS : NEVER;
    }
    if (live_page_now() == NULL && !live_page_make()) {
        live.refused = true;
        report_fallback(FALLBACK_NO_LIVE_PAGE, LIVE_FILE_BYTES);
        return NEVER;
    }
    uint64_t pause = work(now_ms);
    if (place != HEAP_EVENT_IN_BACKGROUND) {
        handle_request(place);
    }
    return pause;
}

/* When a change is to be published, where the next publication is due after `pause`. The caller is the
 * holder. */
static uint64_t due_if_changed(uint64_t pause) {
    uint64_t due = os_now_ms() + pause / live.change_part;
    live.at_once = due == live.change_due ? live.at_once + 1 : 1;
    live.change_due = due;
    return due + (live.at_once >= AT_ONCE_MOST);
}

/* Returns whether a publication is under way that the caller, who was the holder, may go on with. */
static COLD bool serve_now(uint64_t now_ms, enum heap_event_place place) {
    int saved_errno = errno;
    bool more = false;
    if (os_in_own_process() && hold(SOMEBODY)) { /* a child of vfork must not publish */
        if (place == HEAP_EVENT_ON_REQUEST) {
            live.counting = false; /* what is under way began before */
        }
        /* Only for the first step of a publication; the others belong to the same one. */
        if (!live.counting) {
            bool early = now_ms < atomic_load_explicit(&due_ms, memory_order_relaxed);
            bool rarer = early && live.change_part > 1 && decay_is_on();
            live.change_part = rarer ? live.change_part / 2 : CHANGE_INTERVAL_PART;
        }
        /* Before the work, so that a signal that comes meanwhile has the last word on due_ms. */
        atomic_store_explicit(&due_ms, NEVER, memory_order_relaxed);
        uint64_t pause = serve(now_ms, place);
        uint64_t never = NEVER;
        atomic_store_explicit(&held_then, max_size(arena_held_bytes(), 1), memory_order_relaxed);
        atomic_store_explicit(&due_if_changed_ms, pause == NEVER ? NEVER : due_if_changed(pause),
                              memory_order_relaxed);
        if (pause != NEVER) {
            atomic_compare_exchange_strong_explicit(&due_ms, &never, os_now_ms() + pause,
                                                    memory_order_relaxed, memory_order_relaxed);
        }
        more = live.counting;
        atomic_store_explicit(&holder, NOBODY, memory_order_release);
    }
    errno = saved_errno;
    return more;
}

static ALWAYS_INLINE bool has_changed_by(size_t least, size_t part) {
    size_t now = arena_held_bytes();
    size_t then = atomic_load_explicit(&held_then, memory_order_relaxed);
    size_t change = now > then ? now - then : then - now;
    return change > max_size(least, then / part);
}

OFTEN static bool much_has_changed(void) {
    bool first = atomic_load_explicit(&held_then, memory_order_relaxed) == 0;
    return has_changed_by(first ? FIRST_CHANGE_BYTES : CHANGE_BYTES, CHANGE_PART);
}

static NOINLINE bool all_has_changed(void) {
    return has_changed_by(ALL_CHANGE_BYTES, ALL_CHANGE_PART);
}

/* Whether a process that has changed much is to publish. Usually only from the next millisecond on: a young
 * process, whose wait is less than one, would publish with each change. */
static NOINLINE bool is_due_for_change(uint64_t now_ms) {
    uint64_t due = atomic_load_explicit(&due_if_changed_ms, memory_order_relaxed);
    return now_ms > due || (now_ms == due && all_has_changed());
}

/* Whether the clock was read just before; notes that it is read now if not. Events may come every few
 * microseconds, and the clock of a small program is a system call. */
OFTEN static bool has_just_looked(bool changed) {
    uint64_t now = os_ticks();
    uint64_t since = now - atomic_load_explicit(&looked_ticks, memory_order_relaxed);
    if (since < (changed ? OS_TICKS_SHORT / TICKS_PART_IF_CHANGED : OS_TICKS_SHORT)) {
        return true;
    }
    atomic_store_explicit(&looked_ticks, now, memory_order_relaxed);
    return false;
}

/* Publishes what is now, and takes up requests; only in a process that has published before. */
static COLD void serve_all(void) {
    if (atomic_load_explicit(&held_then, memory_order_relaxed) == 0) {
        return;
    }
    for (int i = 0; i < HOLDER_PATIENCE_MS && is_held_for_now(); i++) {
        os_sleep_ms(1);
    }
    bool more = serve_now(os_now_ms(), HEAP_EVENT_ON_REQUEST);
    for (int i = 0; i < STEPS_MOST && more; i++) {
        more = serve_now(os_now_ms(), HEAP_EVENT_IN_PROGRAM);
    }
}

OFTEN static void on_event(enum heap_event_place place) {
    if (UNLIKELY(place == HEAP_EVENT_ON_REQUEST)) {
        serve_all();
        return;
    }
    if (UNLIKELY(atomic_load_explicit(&waits_unlocked, memory_order_relaxed)) &&
        place == HEAP_EVENT_UNLOCKED) {
        serve_now(os_now_ms(), place);
        return;
    }
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

/* Only notes the signal: the next thread that comes to a slow path writes the statistics. */
static void at_signal(int number) {
    (void)number;
    atomic_store_explicit(&signalled, true, memory_order_relaxed);
    atomic_store_explicit(&due_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&looked_ticks, 0, memory_order_relaxed);
}

/* In a forked child: gives up the page, which is the parent's, and the holder, which was one of its
 * threads. If that is the calling thread (`alone`: there was no other), a handler has forked in the middle
 * of a publication, which goes on here: then the page becomes private until it has ended. relaxed: there
 * is no other thread */
static void begin_in_child(bool alone) {
    if (alone && atomic_load_explicit(&holder, memory_order_relaxed) == SOMEBODY) {
        live_page_make_private();
        live.of_parent = true;
    } else {
        forget_page();
        atomic_store_explicit(&holder, NOBODY, memory_order_relaxed);
    }
    live.refused = false;
    atomic_store_explicit(&waits_unlocked, false, memory_order_relaxed);
    atomic_store_explicit(&held_then, 0, memory_order_relaxed);
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
        report_line("HAKMEM_STATS_SIGNAL: this signal cannot be used for that (10, SIGUSR1, can); ignored");
    }
    if (publishes || listens) {
        atomic_store_explicit(&due_ms, publishes ? loaded_ms() + FIRST_MS : NEVER, memory_order_relaxed);
        heap_child_listener = begin_in_child;
        atomic_store_explicit(&heap_event_listener, on_event, memory_order_relaxed);
    }
}

/* How long live_end waits for a publication or an answer that is under way; and for statistics at a signal,
 * which are given up where they are held up for a second. */
#define END_PATIENCE_MS 100
#define END_PATIENCE_FOR_STATISTICS_MS 2000

static bool end_waits(int waited_ms) {
    /* relaxed: how long is worth the wait */
    bool writes = atomic_load_explicit(&holder, memory_order_relaxed) == WRITES_STATISTICS;
    return waited_ms < (writes ? END_PATIENCE_FOR_STATISTICS_MS : END_PATIENCE_MS);
}

OFTEN void live_stop(void) {
    if (atomic_load_explicit(&heap_event_listener, memory_order_relaxed) == NULL || !os_in_own_process()) {
        return;
    }
    /* Held for ever, because threads that still run must not make another page, or write statistics. */
    for (int i = 0; !hold(HELD_FOR_EVER) && end_waits(i); i++) {
        os_sleep_ms(1);
    }
}

OFTEN void live_end(void) {
    /* relaxed: only this thread makes it so */
    bool stopped = atomic_load_explicit(&holder, memory_order_relaxed) == HELD_FOR_EVER;
    if (stopped && live_page_now() != NULL && !live.of_parent) {
        live_page_remove();
    }
}
