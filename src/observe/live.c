#include "observe/live.h"

#include "arena/bound.h"
#include "arena/decay.h"
#include "base/bits.h"
#include "hakmem.h"
#include "heap/event.h"
#include "observe/census.h"
#include "observe/counters.h"
#include "observe/document.h"
#include "observe/stats.h"
#include "options/options.h"
#include "os/asleep.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/report.h"
#include "os/shared_page.h"
#include "os/signal.h"
#include "os/stack_probe.h"
#include "os/thread.h"

#include <errno.h>
#include <string.h>

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

#define TEXT_BYTES 32768 /* capacity of each of the two texts */
#define TEXTS_OFFSET 4096
#define FILE_BYTES (TEXTS_OFFSET + 2 * TEXT_BYTES)
#define PATH_BYTES 1024

enum request {
    REQUEST_PROFILE = 1,
    REQUEST_PINNED,
    REQUEST_MAP,
    REQUEST_SITES,
    REQUEST_START,
    REQUEST_STOP,
    REQUEST_NOW
};

struct live_page {
    char magic[8];
    uint32_t pid;
    uint32_t buffer_bytes;
    uint64_t start_ticks;
    _Atomic uint32_t current; /* relaxed: the sequence orders it, and what follows up to there */
    uint64_t length[2];
    _Atomic uint64_t sequence; /* release pairs with the acquire of readers: what it counts is whole */
    uint64_t published_ms;
    /* Written by clients. acquire pairs with their release: the rest of the request is there. */
    _Atomic uint32_t request_sequence;
    uint32_t request_kind;
    uint64_t request_argument;
    _Atomic uint32_t done_sequence; /* release: its errno is there */
    int32_t done_errno;
    char unused[40];
    char request_path[PATH_BYTES];
};
_Static_assert(offsetof(struct live_page, current) == 24 && offsetof(struct live_page, length) == 32 &&
                   offsetof(struct live_page, sequence) == 48 &&
                   offsetof(struct live_page, request_sequence) == 64 &&
                   offsetof(struct live_page, request_argument) == 72 &&
                   offsetof(struct live_page, done_errno) == 84 &&
                   offsetof(struct live_page, request_path) == 128,
               "other programs know these");
_Static_assert(sizeof(struct live_page) <= TEXTS_OFFSET, "the header has one page");

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
    struct live_page *page; /* NULL: not made yet */
    uint64_t credentials;   /* of the process when it made it */
    bool refused;           /* it cannot be made, or must not be used any more */
    bool counting;          /* the census is under way */
    unsigned change_part;   /* of the interval, after which a change publishes early; 0 before the first */
    bool of_parent;         /* the page is no more than what a publication under way needs until its end */
    uint32_t text_bytes;    /* usable of each text */
    uint64_t cost_ns;       /* of the publication so far */
    struct shared_file file;
    struct census census; /* that the next publication will have, as far as it is */
} live;

/* ---- The page ---------------------------------------------------------------------------------------- */

static char *text_of(unsigned number) {
    return (char *)live.page + TEXTS_OFFSET + (size_t)number * TEXT_BYTES;
}

/* Makes more of both texts usable. */
static bool extend_texts(size_t bytes) {
    size_t wanted = min_size(round_up(bytes, OS_PAGE_BYTES), TEXT_BYTES);
    for (size_t i = 0; i < 2; i++) {
        if (!shared_extend(&live.file, TEXTS_OFFSET + i * TEXT_BYTES + live.text_bytes,
                           wanted - live.text_bytes)) {
            return false;
        }
    }
    live.text_bytes = (uint32_t)wanted;
    return true;
}

/* Signals blocked. */
static bool make_page_undisturbed(void) {
    live.text_bytes = 0;
    live.page = shared_make(&live.file, FILE_BYTES);
    if (live.page == NULL) {
        return false;
    }
    if (!shared_extend(&live.file, 0, TEXTS_OFFSET) || !extend_texts(1)) {
        shared_remove(&live.file);
        shared_unmap(live.page, FILE_BYTES);
        live.page = NULL;
        return false;
    }
    struct live_page *page = live.page;
    live.credentials = os_credentials();
    page->pid = (uint32_t)os_process_id();
    page->buffer_bytes = TEXT_BYTES;
    page->start_ticks = os_start_ticks();
    memcpy(page->magic, "HAKLIVE1", sizeof page->magic);
    return true;
}

static bool make_page(void) {
    uint64_t signals;
    os_block_signals(&signals);
    bool made = make_page_undisturbed();
    os_restore_signals(&signals);
    return made;
}

/* A child that shares what is being read would take a part of it. */
static bool credentials_changed(void) {
    uint64_t signals;
    os_block_signals(&signals);
    bool changed = os_credentials() != live.credentials;
    os_restore_signals(&signals);
    return changed;
}

static void forget_page(void) {
    uint64_t signals;
    os_block_signals(&signals);
    if (live.page != NULL) {
        shared_unmap(live.page, FILE_BYTES);
    }
    live.page = NULL;
    live.counting = false;
    live.of_parent = false;
    os_restore_signals(&signals);
}

/* ---- Publishing ---------------------------------------------------------------------------------------- */

static size_t write_text(char *text, const struct census *census, bool with_classes) {
    struct output out = output_to_buffer(text, live.text_bytes);
    document_write(&out, census, with_classes);
    return out.total;
}

static void publish(const struct census *census) {
    struct live_page *page = live.page;
    uint32_t next = 1 - (atomic_load_explicit(&page->current, memory_order_relaxed) & 1);
    size_t length = write_text(text_of(next), census, true);
    if (length >= live.text_bytes) {
        bool room = length < TEXT_BYTES && extend_texts(length + length / 4);
        length = write_text(text_of(next), census, room);
    }
    if (length >= live.text_bytes) {
        return; /* not even without the classes: what was published before stays */
    }
    page->length[next] = length;
    page->published_ms = os_real_ms();
    atomic_store_explicit(&page->current, next, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->sequence, 1, memory_order_release);
    counters_note_publication();
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
    publish(census);
    live.counting = false;
    live.cost_ns = os_now_ns() - begin;
    return interval_ms(now_ms);
}

/* ---- Requests -------------------------------------------------------------------------------------------
 */

static void publish_measured(void) {
    struct census census;
    census_take(&census, true);
    publish(&census);
}

static int write_file(enum request kind, const char *path) {
    int fd = os_make_private_file(path);
    if (fd < 0) {
        return -1;
    }
    int result = kind == REQUEST_PROFILE  ? hak_profile_dump(fd)
                 : kind == REQUEST_PINNED ? hak_profile_fragmentation(fd)
                 : kind == REQUEST_MAP    ? hak_slab_map_json(fd)
                                          : hak_sites_json(fd);
    int saved_errno = errno;
    os_close(fd);
    errno = saved_errno;
    return result;
}

static int answer(enum request kind, uint64_t argument, const char *path) {
    switch (kind) {
    case REQUEST_PROFILE:
    case REQUEST_PINNED:
    case REQUEST_MAP:
    case REQUEST_SITES:
        return write_file(kind, path);
    case REQUEST_START:
        return hak_profile_start(argument);
    case REQUEST_STOP:
        return hak_profile_stop();
    case REQUEST_NOW:
        publish_measured();
        return 0;
    default:
        errno = ENOSYS;
        return -1;
    }
}

/* What answers a request needs some kilobytes of stack, which not every thread or coroutine has: then another
 * one shall answer, later. Only asked while there is a request. */
#define STACK_NEEDED_BYTES ((size_t)64 << 10)
#define MAIN_STACK_BYTES ((size_t)1 << 20)

static bool stack_has_room(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t end = os_main_stack_end();
    if (here < end && end - here < MAIN_STACK_BYTES) {
        return true; /* the first thread's, which grows */
    }
    for (size_t below = 0; below < STACK_NEEDED_BYTES; below += OS_PAGE_BYTES) {
        if (!os_readable(here - below)) {
            return false;
        }
    }
    return true;
}

static void handle_request(void) {
    struct live_page *page = live.page;
    uint32_t sequence = atomic_load_explicit(&page->request_sequence, memory_order_acquire);
    if (sequence == atomic_load_explicit(&page->done_sequence, memory_order_relaxed) || !stack_has_room()) {
        return;
    }
    if (credentials_changed()) {
        /* Whoever could write there when it was made shall not have done with today's rights what he may not.
         */
        shared_remove(&live.file);
        forget_page();
        live.refused = true;
        return;
    }
    char path[PATH_BYTES];
    memcpy(path, page->request_path, sizeof path); /* the client may change it under our hands */
    path[sizeof path - 1] = '\0';
    page->done_errno =
        answer((enum request)page->request_kind, page->request_argument, path) == 0 ? 0 : errno;
    atomic_store_explicit(&page->done_sequence, sequence, memory_order_release);
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
        stats_write();
    }
    if (live.of_parent) {
        forget_page();
    }
    if (!publishes || live.refused) {
        /* A wish that only a thread of the program may fulfil is still there. */
        return atomic_load_explicit(&signalled, memory_order_relaxed) ? INTERVAL_LEAST_MS : NEVER;
    }
    if (live.page == NULL && !make_page()) {
        live.refused = true;
        report_fallback(FALLBACK_NO_LIVE_PAGE, FILE_BYTES);
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
        if (live.page != NULL) {
            shared_make_private(live.page, FILE_BYTES);
        }
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
        report_line("HAKMEM_STATS_SIGNAL: the system refuses a handler for this signal; ignored");
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
    if (!os_in_own_process()) {
        return;
    }
    /* For ever, because threads that still run must not make another page. */
    bool held = hold(HELD_FOR_EVER);
    for (int i = 0; i < END_PATIENCE && !held; i++) {
        os_sleep_ms(1);
        held = hold(HELD_FOR_EVER);
    }
    if (held && live.page != NULL) {
        shared_remove(&live.file);
    }
}
