/* Settings: one table of names, defaults and values.
 *
 * Promises that a bad value in the environment or in `hakmem_conf` is reported in one line and leaves the
 * setting as it was. Precedence: API, environment, `hakmem_conf`, profile, default. Any thread may read and
 * set them. Relies on os (environment, stderr).
 */
#ifndef HAKMEM_OPTIONS_OPTIONS_H
#define HAKMEM_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hak_option_info; /* of hakmem.h */

enum option {
    OPTION_STATS,             /* bool: print statistics at exit */
    OPTION_STATS_FILE,        /* string: file for the statistics, instead of stderr */
    OPTION_STATS_JSON,        /* bool: print statistics at exit, as JSON */
    OPTION_STATS_SIGNAL,      /* int: print statistics at this signal; at start only */
    OPTION_LIVE,              /* bool: publish statistics in shared memory; at start only */
    OPTION_WRAP_DIAG,         /* bool: log fall-backs */
    OPTION_FORCE_LIBC_ALLOC,  /* bool: hand every request to libc; at start only */
    OPTION_DEEPBIND,          /* bool: libraries may be bound to libc's allocator */
    OPTION_PROFILE,           /* choice: the defaults of other options; at start only */
    OPTION_RETAIN_MIN,        /* bytes of free memory that may stay resident in any case */
    OPTION_RETAIN_PERCENT,    /* free memory that may stay resident, in percent of the memory in use */
    OPTION_RETAIN_GRACE,      /* bytes more that may stay, while the program comes back for what was purged */
    OPTION_DECAY_MS,          /* milliseconds that free memory which nobody needs stays resident */
    OPTION_BACKGROUND_THREAD, /* int: whether a thread of the library's own may give memory back */
    OPTION_RECLAIM,           /* bool: what sleeping threads hold may be taken from them */
    OPTION_HUGE_PAGES,        /* bool: memory that the program fills may come as huge pages */
    OPTION_MAGAZINE_BYTES,    /* most bytes that one magazine may hold */
    OPTION_PROF,              /* bool: sample from the start */
    OPTION_PROF_INTERVAL,     /* bytes between samples, on average */
    OPTION_PROF_FILE,         /* string: file for heap profiles */
    OPTION_PROF_AT_EXIT,      /* bool: write a heap profile at exit, if OPTION_PROF is set */
    OPTION_PROF_PEAK,         /* bool: sample from the start, and write a heap profile at each new peak */
    OPTION_PROF_SIGNAL,       /* int: write a heap profile at this signal; at start only */
    OPTION_PROF_LEAKS,        /* bool: sample from the start, and report at exit what is still in use */
    OPTION_PROF_AGE_MS,       /* least age of the blocks that the fragmentation profile counts */
    OPTION_COUNT
};

/* Texts are shorter than this. */
#define OPTION_TEXT_BYTES 1024

/* Reads `hakmem_conf` and the environment. Once, before any other call. */
void options_init(void);

/* Holds the options' lock around fork; `child` says which process the caller is in. */
void options_lock_for_fork(void);
void options_unlock_after_fork(bool child);

/* The value of an option; these take no lock. Of a choice, option_number is its index. */
bool option_bool(enum option option);
uint64_t option_number(enum option option);
/* Whether an option that is a text has one, if only by default. Takes no lock. */
bool option_has_text(enum option option);
/* That text, or its default if none is set; it stays as it is until option_end_text, because the options'
 * lock is held. NULL, and there is nothing to end, if the lock is held already and the caller may not wait:
 * the handler of a signal may have interrupted its holder. */
const char *option_begin_text(enum option option, bool may_wait);
void option_end_text(void);
const char *option_name(enum option option);
/* The name of the option's environment variable. */
const char *option_environment(enum option option);
/* Writes the option's value to `value`, as one would give it, and returns whether it is not the default. A
 * text always counts as default, because it may change while it is read. Takes no lock. */
bool option_differs(enum option option, char *value, size_t capacity);

/* As hak_option_info; false if there is no such option. */
bool option_info(int index, struct hak_option_info *out);
/* As hak_option_set, but returns 0 or what errno is to be. */
int option_set(const char *name, const char *value);
/* Whether somebody has set the option, or has chosen a profile that sets it, even if to the default. */
bool option_is_chosen(enum option option);
/* Puts the default of an option that is a number in force again, after option_set. */
void option_reset(enum option option);

#endif
