#define _GNU_SOURCE
#include "profile/files.h"

#include "base/bits.h"
#include "options/file.h"
#include "options/options.h"
#include "os/kept.h"
#include "os/os.h"
#include "os/report.h"
#include "os/signal.h"
#include "profile/dump.h"
#include "profile/internal.h"
#include "profile/leaks.h"
#include "profile/sample.h"

#include <errno.h>
#include <stdatomic.h>

/* A new peak is worth a profile when it is so much over the last one, and that is so long ago. */
#define PEAK_STEP_PERCENT 5
#define PEAK_PERIOD_MS 1000

_Atomic uint32_t profile_asked_for;
/* relaxed everywhere: each stands alone */
static _Atomic uint32_t files_written;
static _Atomic uint64_t peak_bytes; /* the last peak that was written */
static _Atomic uint64_t peak_ms;    /* when that was; at first, when the first sample was taken */

static COLD void report_failure(const struct option_file *file, int error) {
    option_file_failed(file, ": the heap profile cannot be written (", error, ")");
}

/* Gives the file its name; false if the options' lock is held, and the caller may not wait. */
static bool name_next(struct option_file *file, bool may_wait) {
    uint64_t number = atomic_load_explicit(&files_written, memory_order_relaxed);
    if (!option_file_name(file, OPTION_PROF_FILE, number, may_wait)) {
        return false;
    }
    atomic_fetch_add_explicit(&files_written, 1, memory_order_relaxed);
    return true;
}

/* Writes the snapshot, and ends it; false, and nothing is written, as name_next. Files that are there already
 * stay: those of another thread, or of the program that this one took the place of by exec. */
static bool write_snapshot(struct option_file *file, struct snapshot *snapshot, bool may_wait) {
    int fd = option_file_open(file);
    while (fd < 0 && errno == EEXIST) {
        if (!name_next(file, may_wait)) {
            snapshot_end(snapshot);
            return false;
        }
        fd = option_file_open(file);
    }
    if (fd < 0) {
        report_failure(file, errno);
        snapshot_end(snapshot);
        return true;
    }
    if (dump_write(fd, snapshot) != 0) {
        report_failure(file, errno);
    }
    os_close(fd);
    return true;
}

/* What the next file is to say, and its name. NULL if a lock is held that this takes, and the caller may not
 * wait, or if there is no memory. */
static struct snapshot *prepare(struct option_file *file, bool may_wait) {
    struct snapshot *snapshot = snapshot_take(may_wait);
    if (snapshot != NULL && !name_next(file, may_wait)) {
        snapshot_end(snapshot);
        snapshot = NULL;
    }
    return snapshot;
}

static void write_file(void) {
    struct option_file file;
    struct snapshot *snapshot = prepare(&file, true);
    if (snapshot != NULL) {
        (void)write_snapshot(&file, snapshot, true);
        files_write_if_asked(); /* by a signal that found the options' lock held for the file's name */
    }
}

/* Writes the profile that was asked for, unless another thread has begun to. False if it cannot be had now:
 * it is still asked for then, and whoever holds the lock looks when it has released it. */
static COLD bool write_asked(void) {
    struct option_file file;
    errno = EBUSY;
    struct snapshot *snapshot = prepare(&file, false);
    if (snapshot == NULL && errno == ENOMEM) { /* it would not go better with each sample */
        atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel);
        report_line("HAKMEM_PROF_SIGNAL: no memory for the heap profile that was asked for");
    }
    if (snapshot == NULL) {
        return false;
    }
    if (atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel) == 0) {
        snapshot_end(snapshot);
    } else if (!write_snapshot(&file, snapshot, false)) {
        /* Another thread has taken the options' lock meanwhile, and may have looked before this. */
        atomic_exchange_explicit(&profile_asked_for, 1, memory_order_acq_rel);
    }
    return true;
}

void files_write_if_asked(void) {
    int saved_errno = errno;
    while (profile_is_asked_for() && write_asked()) {
    }
    errno = saved_errno;
}

void files_after_fork(bool child) {
    if (child) {
        atomic_exchange_explicit(&profile_asked_for, 0,
                                 memory_order_acq_rel); /* it was the parent's to write */
    } else {
        files_write_if_asked();
    }
}

/* All that the handler calls may be called at any moment, except that it must not wait for a lock, which the
 * thread that it interrupts may hold. */
static void at_signal(int number) {
    (void)number;
    atomic_exchange_explicit(&profile_asked_for, 1, memory_order_acq_rel);
    files_write_if_asked();
}

/* Whether the memory in use, which is stored in `bytes`, has a peak that is worth a profile. */
static bool peak_is_new(uint64_t *bytes) {
    uint64_t last = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    *bytes = profile_live_bytes();
    return option_bool(OPTION_PROF_PEAK) && *bytes > last + last / 100 * PEAK_STEP_PERCENT;
}

/* Whether the calling thread is to write a profile because of a new peak. The first sample only begins the
 * period, because it says nothing of what is about to come. */
static bool peak_is_due(void) {
    uint64_t bytes;
    if (!peak_is_new(&bytes)) {
        return false;
    }
    uint64_t now = os_now_ms();
    uint64_t before = atomic_load_explicit(&peak_ms, memory_order_relaxed);
    if (before != 0 && now - before < PEAK_PERIOD_MS) {
        return false;
    }
    /* Of several threads that come here at once, one writes. */
    if (!atomic_compare_exchange_strong_explicit(&peak_ms, &before, now, memory_order_relaxed,
                                                 memory_order_relaxed) ||
        before == 0) {
        return false;
    }
    atomic_store_explicit(&peak_bytes, bytes, memory_order_relaxed);
    return true;
}

void files_write_if_peak(void) {
    if (peak_is_due()) {
        int saved_errno = errno;
        write_file();
        errno = saved_errno;
    }
}

OFTEN void files_at_start(void) {
    uint64_t number = option_number(OPTION_PROF_SIGNAL);
    if (number != 0 && number == option_number(OPTION_STATS_SIGNAL)) {
        report_line("HAKMEM_PROF_SIGNAL: this signal is that of HAKMEM_STATS_SIGNAL; ignored");
    } else if (number != 0 && !os_on_signal((int)number, at_signal)) {
        report_line("HAKMEM_PROF_SIGNAL: this signal cannot be used for that (10, SIGUSR1, can); ignored");
    }
    if (option_bool(OPTION_PROF_LEAKS)) {
        os_keep_error_output();
    } else if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK) || number != 0) {
        option_file_at_start(OPTION_PROF_FILE);
    }
}

static COLD void write_at_exit(void) {
    uint64_t bytes;
    if ((option_bool(OPTION_PROF) && option_bool(OPTION_PROF_AT_EXIT)) || peak_is_new(&bytes)) {
        write_file();
    }
}

OFTEN void files_at_exit(void) {
    if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK)) {
        write_at_exit();
    }
    if (option_bool(OPTION_PROF_LEAKS)) {
        leaks_write(os_error_output());
    }
}
