#define _GNU_SOURCE
#include "profile/files.h"

#include "base/bits.h"
#include "options/file.h"
#include "options/options.h"
#include "os/clock.h"
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
/* How long the end of the process waits for a file that another thread is writing. */
#define END_PATIENCE_MS 1000

_Atomic uint32_t profile_asked_for;
/* relaxed everywhere: each stands alone */
static _Atomic uint32_t files_written;
static _Atomic uint64_t peak_bytes; /* the last peak that was written */
static _Atomic uint64_t peak_ms;    /* when that was; at first, when the first sample was taken */

/* Which thread is writing a file, by its thread pointer, which it has in a child of fork, too; 0: none. One
 * at a time, because all may be of one name, and nobody waits for his turn but the end of the process, which
 * keeps it. acquire in begin_writing pairs with the release in end_writing */
static _Atomic uintptr_t writer;

/* Makes the calling thread the writer; false if there is one. */
static bool begin_writing(void) {
    uintptr_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(&writer, &nobody, (uintptr_t)__builtin_thread_pointer(),
                                                   memory_order_acquire, memory_order_relaxed);
}

/* To be followed by files_write_if_asked: whoever was asked meanwhile has left it to this thread. */
static void end_writing(void) {
    atomic_store_explicit(&writer, 0, memory_order_release);
}

/* relaxed: only the thread itself writes its own pointer there */
static bool is_writer(void) {
    return atomic_load_explicit(&writer, memory_order_relaxed) == (uintptr_t)__builtin_thread_pointer();
}

/* Begins to write for the last time: nobody else begins then. False if another thread is still writing, which
 * may be held up for ever. What this thread itself was writing when a handler of a signal ended the process
 * does not go on. */
static COLD bool begin_last(void) {
    for (int i = 0; i < END_PATIENCE_MS && !begin_writing() && !is_writer(); i++) {
        os_sleep_ms(1);
    }
    return is_writer();
}

static COLD void report_failure(const struct option_file *file, int error) {
    option_file_failed(file, ": the heap profile cannot be written (", error, ")", PATIENCE_NONE);
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
        option_file_discard(file);
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

/* Writes the profile of now. `alone`: the calling thread is the writer; else only to a file of its own. */
static void write_file(bool alone) {
    struct option_file file;
    struct snapshot *snapshot = prepare(&file, true);
    if (snapshot != NULL && !alone && !file.numbered) {
        report_failure(&file, EBUSY);
        snapshot_end(snapshot);
    } else if (snapshot != NULL) {
        (void)write_snapshot(&file, snapshot, true);
    }
}

/* Writes the profile that was asked for, unless another thread has begun to. False if it cannot be had now:
 * it is still asked for then, and whoever holds the lock or writes looks when that is over. */
static COLD bool write_asked(void) {
    struct option_file file;
    /* relaxed: a writer whose end is not seen here, behind profile_is_asked_for, looks later itself */
    if (atomic_load_explicit(&writer, memory_order_relaxed) != 0) {
        return false;
    }
    errno = EBUSY;
    struct snapshot *snapshot = prepare(&file, false);
    if (snapshot == NULL && errno == ENOMEM) { /* it would not go better with each sample */
        atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel);
        report_line("HAKMEM_PROF_SIGNAL: no memory for the heap profile that was asked for");
    }
    if (snapshot == NULL) {
        return false;
    }
    /* Asked again, because a writer that ended meanwhile may have found the locks held, and left it. */
    if (!profile_is_asked_for() || !begin_writing()) {
        snapshot_end(snapshot);
        return false;
    }
    if (atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel) == 0) {
        snapshot_end(snapshot);
    } else if (!write_snapshot(&file, snapshot, false)) {
        /* Another thread has taken the options' lock meanwhile, and may have looked before this. */
        atomic_exchange_explicit(&profile_asked_for, 1, memory_order_acq_rel);
    }
    end_writing();
    return true;
}

void files_write_if_asked(void) {
    int saved_errno = errno;
    while (profile_is_asked_for() && write_asked()) {
    }
    errno = saved_errno;
}

void files_after_fork(bool child) {
    if (child) { /* what was asked for was the parent's to write, and another thread may have been writing */
        atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel);
        end_writing();
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

/* Whether a new peak is to be written now. The first sample only begins the period, because it says nothing
 * of what is about to come. */
static bool peak_is_due(void) {
    uint64_t bytes;
    if (!peak_is_new(&bytes)) {
        return false;
    }
    uint64_t now = os_now_ms();
    uint64_t before = atomic_load_explicit(&peak_ms, memory_order_relaxed);
    if (before == 0) {
        atomic_store_explicit(&peak_ms, now, memory_order_relaxed);
    }
    return before != 0 && now - before >= PEAK_PERIOD_MS;
}

/* Writes the peak, unless another thread has; the caller is the writer. */
static COLD void write_peak(void) {
    if (peak_is_due()) {
        atomic_store_explicit(&peak_ms, os_now_ms(), memory_order_relaxed);
        atomic_store_explicit(&peak_bytes, profile_live_bytes(), memory_order_relaxed);
        write_file(true);
    }
}

void files_write_if_peak(void) {
    if (peak_is_due() && begin_writing()) {
        int saved_errno = errno;
        write_peak();
        end_writing();
        files_write_if_asked();
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

/* Also what was asked for while another thread was writing. */
static COLD void write_at_exit(void) {
    uint64_t bytes;
    bool alone = begin_last();
    bool asked = atomic_exchange_explicit(&profile_asked_for, 0, memory_order_acq_rel) != 0;
    if (asked || (option_bool(OPTION_PROF) && option_bool(OPTION_PROF_AT_EXIT)) || peak_is_new(&bytes)) {
        write_file(alone);
    }
}

OFTEN void files_at_exit(void) {
    if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK) || option_number(OPTION_PROF_SIGNAL) != 0) {
        write_at_exit();
    }
    if (option_bool(OPTION_PROF_LEAKS)) {
        leaks_write(os_error_output());
    }
}
