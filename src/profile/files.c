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
#include "profile/leaks.h"
#include "profile/sample.h"

#include <errno.h>
#include <stdatomic.h>

/* A new peak is worth a profile when it is so much over the last one, and that is so long ago. */
#define PEAK_STEP_PERCENT 5
#define PEAK_PERIOD_MS 1000

/* relaxed everywhere: each stands alone */
static _Atomic uint32_t files_written;
static _Atomic bool wanted; /* a signal has asked for a profile that its handler could not write */
static _Atomic uint64_t peak_bytes, peak_ms; /* the last peak that was written, and when */

static COLD void report_failure(const struct option_file *file, int error) {
    option_file_failed(file, ": the heap profile cannot be written (", error, ")");
}

static void write_snapshot(const struct option_file *file, struct snapshot *snapshot) {
    int fd = option_file_open(file);
    if (fd < 0) {
        report_failure(file, errno);
        snapshot_end(snapshot);
        return;
    }
    if (dump_write(fd, snapshot) != 0) {
        report_failure(file, errno);
    }
    os_close(fd);
}

/* Writes the next file; false if a lock is held that this takes, and the caller may not wait. */
static bool write_file(bool may_wait) {
    struct option_file file;
    uint64_t number = atomic_load_explicit(&files_written, memory_order_relaxed);
    if (!option_file_name(&file, OPTION_PROF_FILE, number, may_wait)) {
        return false;
    }
    struct snapshot *snapshot = snapshot_take(may_wait);
    if (snapshot == NULL) {
        return errno != EBUSY;
    }
    atomic_fetch_add_explicit(&files_written, 1, memory_order_relaxed);
    write_snapshot(&file, snapshot);
    return true;
}

/* All that the handler calls may be called at any moment, except that it must not wait for a lock, which the
 * thread that it interrupts may hold. */
static void at_signal(int number) {
    (void)number;
    int saved_errno = errno;
    if (!write_file(false)) {
        atomic_store_explicit(&wanted, true, memory_order_relaxed);
    }
    errno = saved_errno;
}

/* Whether the calling thread is to write a profile, because the memory in use has a new peak. */
static bool peak_is_due(void) {
    uint64_t bytes = profile_live_bytes();
    uint64_t last = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    if (!option_bool(OPTION_PROF_PEAK) || bytes <= last + last / 100 * PEAK_STEP_PERCENT) {
        return false;
    }
    uint64_t now = os_now_ms();
    uint64_t before = atomic_load_explicit(&peak_ms, memory_order_relaxed);
    if (before != 0 && now - before < PEAK_PERIOD_MS) {
        return false;
    }
    /* Of several threads that come here at once, one writes. */
    if (!atomic_compare_exchange_strong_explicit(&peak_ms, &before, now, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&peak_bytes, bytes, memory_order_relaxed);
    return true;
}

void files_write_if_due(void) {
    bool asked = atomic_load_explicit(&wanted, memory_order_relaxed) &&
                 atomic_exchange_explicit(&wanted, false, memory_order_relaxed);
    if (UNLIKELY(asked) || peak_is_due()) {
        int saved_errno = errno;
        (void)write_file(true);
        errno = saved_errno;
    }
}

OFTEN void files_at_start(void) {
    uint64_t number = option_number(OPTION_PROF_SIGNAL);
    if (number != 0 && number == option_number(OPTION_STATS_SIGNAL)) {
        report_line("HAKMEM_PROF_SIGNAL: this signal is that of HAKMEM_STATS_SIGNAL; ignored");
    } else if (number != 0 && !os_on_signal((int)number, at_signal)) {
        report_line("HAKMEM_PROF_SIGNAL: this signal cannot be used for that; ignored");
    }
    if (option_bool(OPTION_PROF_LEAKS)) {
        os_keep_error_output();
    } else if (option_bool(OPTION_PROF) || option_bool(OPTION_PROF_PEAK) || number != 0) {
        option_file_at_start(OPTION_PROF_FILE);
    }
}

OFTEN void files_at_exit(void) {
    if (option_bool(OPTION_PROF) && option_bool(OPTION_PROF_AT_EXIT)) {
        (void)write_file(true);
    }
    if (option_bool(OPTION_PROF_LEAKS)) {
        leaks_write(os_error_output());
    }
}
