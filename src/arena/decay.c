#include "arena/decay.h"

#include "arena/behind.h"
#include "arena/bound.h"
#include "arena/internal.h"
#include "arena/purge.h"
#include "arena/scarcity.h"
#include "arena/tails.h"
#include "options/options.h"
#include "os/backoff.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/program.h"
#include "os/purge.h"
#include "os/report.h"
#include "os/thread.h"

/* Free slabs that are worth a thread, and those left when it ends: 512 KiB and 256 KiB. */
#define START_SLABS ((size_t)8)
#define REST_SLABS ((size_t)4)

/* What a program without threads has taken again twice before it gets the thread, or half of what is free: 4
 * MiB. */
#define WORTH_A_THREAD_SLABS ((size_t)64)
/* For so long after it has forked, say, no thread is started in such a program: it may look whether it has
 * one (Python does), or is not done yet. */
#define MAKES_WAY_MS 50

#define PERIOD_LEAST_MS 10
/* The thread ends where the OS has taken nothing for so long, and two periods: it was asked at least once. */
#define IN_VAIN_MOST_MS (2 * (uint64_t)BACKOFF_MOST_MS)

/* Free blocks in slabs are looked at where this part less is in use than at the last such look, or at most
 * since. */
#define SHRUNK_PART 4
/* Free blocks in slabs are idle if never more than this part of them was taken meanwhile. */
#define IDLE_PART 4

/* The arena's lock protects what has no comment of its own. */
static enum { NO_THREAD, STARTING, RUNNING } thread;
/* From decay_begun until `thread` is NO_THREAD again. seq_cst everywhere: pairs with the post in parcel_send
 * (src/heap/parcel.c), which then reads this; the library's thread empties all parcels after it has cleared
 * it, so either it finds the parcel, or the sender sees that nobody will come for it. */
static _Atomic bool is_on;
/* The program has shown that it gains by the thread, though it has none of its own. relaxed everywhere: a
 * hint */
static _Atomic bool wants_thread;
/* Where the program has no threads, none is started before. relaxed everywhere: only such a program asks */
static _Atomic uint64_t way_made_until_ms;
static struct backoff no_thread; /* holds while it is no use to start the thread: the OS had none */
static uint64_t last_tick_ms, last_success_ms;
static uint64_t looked_ticks; /* os_ticks when due() last read the clock; under the arena's lock */
/* Of decay_set_work: written once. */
static void (*run)(void);
static void (*in_passing)(void);
static bool (*relieve)(void);
/* The least that was free in slabs at any look since the last tick. relaxed everywhere: a guess */
static _Atomic int64_t slack_low;
_Atomic uint32_t decay_idle_ticks;
static bool relieving; /* some thread does DECAY_RELIEVE; under the arena's lock */

void decay_begun(void) {
    atomic_store_explicit(&decay_idle_ticks, 0, memory_order_relaxed);
    atomic_store_explicit(&is_on, true, memory_order_seq_cst);
}

bool decay_is_on(void) {
    return atomic_load_explicit(&is_on, memory_order_seq_cst) && !os_thread_is_lost();
}

void decay_set_work(void (*thread_work)(void), void (*passing_work)(void), bool (*relief_work)(void)) {
    run = thread_work;
    in_passing = passing_work;
    relieve = relief_work;
}

uint64_t decay_period_ms(void) {
    /* Half of DECAY_MS: what lies idle for two whole periods between three ticks is given back at the last.
     */
    return max_size(option_number(OPTION_DECAY_MS) / 2, PERIOD_LEAST_MS);
}

/* Whether memory is scarce. No lock held. */
COLD static bool memory_is_scarce(void) {
    return scarcity_read(arena_is_scarce(), arena_more_without_scarcity());
}

static void set_scarce(bool scarce) {
    arena.retention.scarce = scarce;
    /* relaxed: a hint for those without the lock */
    atomic_store_explicit(&arena.is_scarce, scarce, memory_order_relaxed);
}

/* Gives back what was dirty throughout the last two periods, and begins the next. False if the OS would not
 * take it. Arena lock held, and let go meanwhile. */
static bool tick(bool scarce) {
    if (arena.hidden_slabs > 0) {
        behind_show_excess();
    }
    size_t low = min_size(arena.dirty_low, arena.dirty_slabs);
    size_t idle = min_size(low, arena.dirty_low_before);
    bool taken = true;
    retention_tick(&arena.retention, idle);
    set_scarce(scarce);
    size_t target = min_size(arena.dirty_slabs - idle, arena_bound());
    if (target < arena.dirty_slabs) {
        size_t purged = arena_purge_to(target);
        arena.decayed_bytes += purged << SLAB_SHIFT;
        taken = purged > 0;
    }
    arena.dirty_low = arena.dirty_slabs;
    arena.dirty_low_before = min_size(low, arena.dirty_slabs);
    arena_begin_period();
    arena_note_size();
    return taken;
}

static void thread_ends(void) {
    thread = NO_THREAD;
    atomic_store_explicit(&is_on, false, memory_order_seq_cst);
    set_scarce(false); /* nobody would find out that it is over */
}

/* Whether most of what is free in slabs was free throughout the last period, as far as looks tell: what a
 * program breathes is none of it. False in programs with threads, where nobody looks so often. Begins the
 * next period. */
COLD static bool slack_was_idle(void) {
    int64_t slack = arena_slack();
    int64_t low = atomic_exchange_explicit(&slack_low, slack, memory_order_relaxed);
    return !os_program_has_threads() && low >= slack - slack / IDLE_PART;
}

/* By whoever has set `relieving`. */
static COLD void do_relieve(void) {
    bool more = relieve();
    lock_acquire(&arena.lock);
    relieving = false;
    if (!more) {
        arena.used_unrelieved = arena.used_slabs;
    }
    lock_release(&arena.lock);
}

/* Notes whether what is free in slabs was so throughout the period, and whether the caller, as the only one,
 * has to relieve the program of some of it. Arena lock held. */
static bool ends_idle_period(void) {
    bool idle = slack_was_idle();
    uint32_t ticks = atomic_load_explicit(&decay_idle_ticks, memory_order_relaxed);
    atomic_store_explicit(&decay_idle_ticks, idle ? ticks + 1 : 0, memory_order_relaxed);
    bool relieves = idle && !relieving;
    relieving = relieving || relieves;
    return relieves;
}

COLD bool decay_tick(bool more) {
    bool scarce = memory_is_scarce();
    lock_acquire(&arena.lock);
    thread = RUNNING;
    backoff_end(&no_thread);
    uint64_t now = os_now_ms();
    if (tick(scarce)) {
        last_success_ms = now;
    }
    if (ends_idle_period()) {
        lock_release(&arena.lock);
        do_relieve();
        lock_acquire(&arena.lock);
    }
    /* An older kernel does not take back what the program has locked: no use to try for ever. */
    more =
        more || arena_stocked() > 0 || arena_kept_slabs() > 0 ||
        (arena.dirty_slabs > REST_SLABS && now - last_success_ms < IN_VAIN_MOST_MS + 2 * decay_period_ms());
    if (!more) {
        thread_ends();
    }
    lock_release(&arena.lock);
    return more;
}

/* Down to what may stay where there is no such thread. Arena lock held. */
static void purge_what_it_looked_after(void) {
    (void)arena_purge_to(arena_bound_without_thread());
}

COLD void decay_stop(void) {
    lock_acquire(&arena.lock);
    thread_ends();
    purge_what_it_looked_after();
    lock_release(&arena.lock);
}

RARE void decay_prepare_for_fork(void) {
    if (decay_is_on()) {
        lock_acquire(&arena.lock);
        purge_what_it_looked_after();
        lock_release(&arena.lock);
    }
}

/* The thread is not there, and does nothing any more that it may have been about. Arena lock held. */
static void forget_thread(void) {
    os_thread_lost_by_fork();
    thread_ends();
    relieving = false;
    scarcity_lost_by_fork();
}

/* Forgets the thread where it is not there: in a child that no handler of ours has told of the fork it is the
 * parent's, begun or about to be; and something may have ended it. Arena lock held. */
static void note_if_lost(void) {
    if ((thread != NO_THREAD && os_thread_is_lost()) || (thread == RUNNING && !os_thread_exists())) {
        forget_thread();
    }
}

void decay_note_breath(void) {
    atomic_store_explicit(&wants_thread, true, memory_order_relaxed);
}

bool decay_wants_thread(void) {
    return atomic_load_explicit(&wants_thread, memory_order_relaxed);
}

/* Whether the program has no threads, though it may have had some. After a filter, /proc is not asked: who
 * has threads has to allow the library's. That has not looked for one yet if it has just begun: then the
 * caller does, whose descriptors nobody else uses. */
RARE static bool program_is_one_thread(void) {
    if (!os_program_has_threads()) {
        return true;
    }
    if (!os_purge_expects_no_filter() || !os_thread_is_only_other()) {
        return false;
    }
    if (!os_purge_sees_no_filter()) {
        os_purge_look_for_filter();
    }
    return os_purge_sees_no_filter();
}

RARE bool decay_make_way(void) {
    if (!program_is_one_thread()) {
        return true;
    }
    atomic_store_explicit(&way_made_until_ms, os_now_ms() + MAKES_WAY_MS, memory_order_relaxed);
    return os_thread_end();
}

/* Whether the program takes much again of what it was relieved of, or most of its memory is free, or much
 * more of it than may be but for the grace: nobody would give that back if it made no further call. Arena
 * lock held. */
static bool gains_by_a_thread(void) {
    size_t much_bytes = 2 * WORTH_A_THREAD_SLABS << SLAB_SHIFT;
    size_t held_bytes = arena_held_bytes();
    size_t dirty_bytes = arena.dirty_slabs << SLAB_SHIFT;
    size_t free_bytes = (arena.used_slabs << SLAB_SHIFT) + dirty_bytes - held_bytes;
    return retention_breath(&arena.retention) >= WORTH_A_THREAD_SLABS ||
           dirty_bytes > arena_share_bytes() + much_bytes || free_bytes > max_size(held_bytes, much_bytes);
}

/* Whether a program that has no threads of its own gets this one. It changes what such a program may do
 * (namespaces, sandboxes, fork without handlers): only where the calls that do that come by here first
 * (decay_make_way). Arena lock held. */
static bool is_worth_a_first_thread(void) {
    if (gains_by_a_thread()) {
        decay_note_breath();
    }
    return decay_wants_thread() && os_purge_sees_no_filter() &&
           os_now_ms() >= atomic_load_explicit(&way_made_until_ms, memory_order_relaxed);
}

/* Whether the caller is to start the thread. Arena lock held. */
COLD static bool may_start(void) {
    uint64_t wanted = option_number(OPTION_BACKGROUND_THREAD);
    note_if_lost();
    if (thread != NO_THREAD || wanted == 0 ||
        (wanted == 1 && !os_program_has_threads() && !is_worth_a_first_thread()) || !os_main_has_begun() ||
        backoff_holds(&no_thread)) {
        return false;
    }
    /* A child of vfork would take the thread along when it ends or calls exec, whatever lock of the parent's
     * it holds. */
    if (!os_in_own_process()) {
        return false;
    }
    os_thread_prepare();
    thread = STARTING;
    uint64_t now = os_now_ms();
    if (last_success_ms != 0 && now - last_success_ms > GRACE_REMEMBERED_PERIODS * decay_period_ms()) {
        arena_forget_grace();
    }
    last_success_ms = now;
    arena.dirty_low = arena.dirty_slabs;
    arena.dirty_low_before = 0;
    arena.used_most = arena.used_slabs;
    return true;
}

void decay_request(void) {
    lock_acquire(&arena.lock);
    bool start = may_start();
    lock_release(&arena.lock);
    if (start) {
        decay_do(DECAY_START);
    }
}

/* What is due where there is much to give back, without the library's thread. Arena lock held. */
COLD static enum decay_work due(void) {
    note_if_lost();
    /* One that is about to end cannot wait for itself to be gone: the program's next free looks. */
    if (thread != NO_THREAD || os_thread_is_own()) {
        return DECAY_NOTHING;
    }
    if (may_start()) {
        return DECAY_START;
    }
    /* Without this, the clock would be a part of what a free takes. */
    if (!os_ticks_passed(&looked_ticks, OS_TICKS_SHORT)) {
        return DECAY_NOTHING;
    }
    uint64_t now = os_now_ms();
    if (now - last_tick_ms < decay_period_ms()) {
        return DECAY_NOTHING;
    }
    last_tick_ms = now;
    return DECAY_TICK;
}

/* Whether free blocks in slabs are to be looked at: what may be free shrinks with what is in use, and it may
 * be that nobody frees any of them. */
static bool has_shrunk(void) {
    return arena.used_slabs < arena.used_unrelieved - arena.used_unrelieved / SHRUNK_PART &&
           (arena_slack() > (int64_t)option_number(OPTION_RETAIN_MIN) || tails_exceed());
}

enum decay_work decay_due(void) {
    if (UNLIKELY(arena_has_too_much_stocked() || has_shrunk()) && !relieving) {
        relieving = true;
        return DECAY_RELIEVE;
    }
    bool much = arena.dirty_slabs + arena_kept_slabs() > START_SLABS || arena.retention.scarce ||
                arena_stocked() > (int64_t)(START_SLABS << SLAB_SHIFT) ||
                (UNLIKELY(arena.hidden_slabs > 0) && behind_exceeds());
    return UNLIKELY(much) ? due() : DECAY_NOTHING;
}

void decay_look(void) {
    if (!decay_is_on()) {
        lock_acquire(&arena.lock);
        enum decay_work work = due();
        lock_release(&arena.lock);
        decay_do(work);
    }
}

void decay_look_if_much(void) {
    if (os_program_has_threads()) {
        return;
    }
    int64_t slack = arena_slack();
    if (slack < atomic_load_explicit(&slack_low, memory_order_relaxed)) {
        atomic_store_explicit(&slack_low, slack, memory_order_relaxed);
    }
    /* relaxed: a hint */
    size_t dirty = atomic_load_explicit(&arena.dirty_seen, memory_order_relaxed) + arena_kept_slabs();
    if ((int64_t)(dirty << SLAB_SHIFT) + slack > (int64_t)option_number(OPTION_RETAIN_MIN)) {
        decay_look();
    }
}

COLD static void start(void) {
    if (!os_thread_start(run)) {
        report_fallback(FALLBACK_NO_BACKGROUND_THREAD, 0);
        lock_acquire(&arena.lock);
        backoff_begin(&no_thread);
        thread_ends();
        lock_release(&arena.lock);
    }
}

COLD void decay_do(enum decay_work work) {
    if (work == DECAY_START) {
        start();
    } else if (work == DECAY_TICK) {
        bool scarce = option_number(OPTION_BACKGROUND_THREAD) != 0 && memory_is_scarce();
        lock_acquire(&arena.lock);
        tick(scarce);
        bool relieves = ends_idle_period();
        lock_release(&arena.lock);
        in_passing();
        if (relieves) {
            do_relieve();
        }
    } else if (work == DECAY_RELIEVE) {
        do_relieve();
    }
}

COLD void decay_lost_by_fork(void) {
    forget_thread();
    backoff_end(&no_thread);
}
