/* Settings: one table of names, defaults and values.
 *
 * Promises that a bad value is reported in one line and leaves the setting as it was. Precedence:
 * API, environment, `hakmem_conf`, profile, default. Relies on os (environment, stderr).
 */
#ifndef HAKMEM_OPTIONS_OPTIONS_H
#define HAKMEM_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hak_option_info; /* of hakmem.h */

enum option {
    OPTION_STATS,             /* bool: print statistics at exit */
    OPTION_STATS_FILE,        /* string: where to, instead of stderr */
    OPTION_STATS_JSON,        /* bool: print them, and as JSON */
    OPTION_STATS_SIGNAL,      /* int: print them at this signal; at start only */
    OPTION_LIVE,              /* bool: publish them in shared memory; at start only */
    OPTION_WRAP_DIAG,         /* bool: log fall-backs */
    OPTION_FORCE_LIBC_ALLOC,  /* bool, at start only */
    OPTION_DEEPBIND,          /* bool: libraries may be bound to libc's allocator */
    OPTION_PROFILE,           /* choice: the defaults of those below; at start only */
    OPTION_RETAIN_MIN,        /* bytes of free memory that may stay resident in any case */
    OPTION_RETAIN_PERCENT,    /* of the memory in use, likewise */
    OPTION_RETAIN_GRACE,      /* bytes more, while the program comes back for what was purged */
    OPTION_DECAY_MS,          /* how long free memory that nobody needs stays resident */
    OPTION_BACKGROUND_THREAD, /* int: whether a thread of the library's own may give memory back */
    OPTION_RECLAIM,           /* bool: what sleeping threads hold may be taken from them */
    OPTION_HUGE_PAGES,        /* bool: memory that the program fills may come as huge pages */
    OPTION_MAGAZINE_BYTES,    /* most bytes that one magazine may hold */
    OPTION_PROF,              /* bool: sample from the start */
    OPTION_PROF_INTERVAL,     /* bytes between samples, on average */
    OPTION_PROF_FILE,         /* string: where heap profiles go */
    OPTION_PROF_AT_EXIT,      /* bool: one of them at exit, where it sampled from the start */
    OPTION_PROF_PEAK,         /* bool: one at each new peak */
    OPTION_PROF_SIGNAL,       /* int: one at this signal; at start only */
    OPTION_PROF_LEAKS,        /* bool: what is still in use at exit */
    OPTION_PROF_AGE_MS,       /* of blocks that the fragmentation profile counts */
    OPTION_COUNT
};

#define OPTION_TEXT_BYTES 1024

/* Reads `hakmem_conf` and the environment. Once, before any other call. */
void options_init(void);

/* Around fork. */
void options_lock_for_fork(void);
void options_unlock_after_fork(bool child);

bool option_bool(enum option option);
uint64_t option_number(enum option option);
/* "" if unset. Without a lock: what is set meanwhile may be mixed with what was, but ends. */
const char *option_text(enum option option);
const char *option_name(enum option option);
const char *option_environment(enum option option); /* of the environment */
/* Writes the value as it would be given, and returns true if it is not the default. A text counts as default:
 * it may change while it is read. Without a lock. */
bool option_differs(enum option option, char *value, size_t capacity);

/* As hak_option_info; false if there is no such option. */
bool option_info(int index, struct hak_option_info *out);
/* As hak_option_set: 0 or what errno is to be. */
int option_set(const char *name, const char *value);
/* Whether somebody, or a profile that somebody chose, has said what it is to be, and be it the default. */
bool option_is_chosen(enum option option);
/* Takes back what option_set has set: the default is in force. Of a number. */
void option_reset(enum option option);

#endif
