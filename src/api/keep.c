#include "api/keep.h"

#include "base/bits.h"
#include "base/text.h"
#include "heap/runtime.h"
#include "options/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* The options that keep all free memory, and their values for that. */
static const struct {
    enum option option;
    const char *value;
} keeping[] = {{OPTION_RETAIN_MIN, "128T"}, {OPTION_DECAY_MS, "3600000"}};
#define KEEPING (sizeof keeping / sizeof *keeping)

static COLD bool user_has_chosen(void) {
    bool chosen = option_is_chosen(OPTION_PROFILE);
    for (size_t i = 0; i < KEEPING; i++) {
        chosen = chosen || option_is_chosen(keeping[i].option);
    }
    return chosen;
}

static COLD void keep(void) {
    for (size_t i = 0; i < KEEPING; i++) {
        option_set(option_name(keeping[i].option), keeping[i].value);
    }
}

static COLD void keep_no_more(void) {
    for (size_t i = 0; i < KEEPING; i++) {
        uint64_t kept;
        bool is_ours = parse_size(keeping[i].value, strlen(keeping[i].value), &kept) &&
                       option_number(keeping[i].option) == kept; /* the program may have set it since */
        if (is_ours) {
            option_reset(keeping[i].option);
        }
    }
}

/* In a forked child, whose memory is not locked. */
static COLD void end_in_child(void) {
    keep_free_memory(KEEP_LOCKED, false);
}

COLD void keep_free_memory(enum keep_reason reason, bool holds) {
    /* relaxed everywhere: the options have a lock, calls at the same time contradict each other anyway, and
     * whoever registers end_in_child needs nothing of other threads */
    static _Atomic unsigned reasons;            /* set of enum keep_reason */
    static _Atomic bool kept, seen_by_children; /* keep() was called; end_in_child is registered */
    runtime_start();
    unsigned before = holds ? atomic_fetch_or_explicit(&reasons, reason, memory_order_relaxed)
                            : atomic_fetch_and_explicit(&reasons, ~(unsigned)reason, memory_order_relaxed);
    unsigned now = holds ? before | reason : before & ~(unsigned)reason;
    if (reason == KEEP_LOCKED && holds &&
        !atomic_exchange_explicit(&seen_by_children, true, memory_order_relaxed)) {
        pthread_atfork(NULL, NULL, end_in_child);
    }
    if (before == 0 && now != 0 && !user_has_chosen()) {
        atomic_store_explicit(&kept, true, memory_order_relaxed);
        keep();
    } else if (now == 0 && atomic_exchange_explicit(&kept, false, memory_order_relaxed)) {
        keep_no_more();
    }
}
