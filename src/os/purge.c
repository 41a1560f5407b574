#include "os/purge.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/reader.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/pidfd.h has it from 6.14 on; older kernels say EBADF. */
#ifndef PIDFD_SELF_THREAD_GROUP
#define PIDFD_SELF_THREAD_GROUP (-10001)
#endif

/* For fewer ranges it is not worth opening a file; for fewer than RANGES_LEAST, asking who one is. */
#define RANGES_LEAST_TO_LOOK 8
#define RANGES_LEAST 2
/* How often os_purge_expect_filter looks whether all are back: some 10 ms. A signal handler that installs a
 * filter may have interrupted the one that it would wait for. */
#define LOOKS_MOST 10000

/* The kernel has refused process_madvise. relaxed everywhere: whoever does not see it yet finds out again */
static _Atomic bool unknown_to_the_kernel;

/* What is known of filters. Changed by compare-and-swap, but for the last, which is for good. */
enum filter {
    NO_NOTICE, /* one may come without notice */
    NOT_SEEN,  /* notice will be given; nobody has looked */
    NONE,
    EXPECTED,
};
/* seq_cst everywhere, and so is `calling` where it grows: a caller counts itself and then reads `filter`,
 * os_purge_expect_filter writes that and then reads the count, so that one of them sees the other. */
static _Atomic uint32_t filter;
/* Threads that are about to make the call because of NONE, or in it. Release where it shrinks pairs with the
 * load in os_purge_expect_filter. */
static _Atomic uint32_t calling;

static void become(uint32_t from, uint32_t to) {
    atomic_compare_exchange_strong_explicit(&filter, &from, to, memory_order_seq_cst, memory_order_seq_cst);
}

OFTEN void os_purge_trust_notice(void) {
    become(NO_NOTICE, NOT_SEEN);
}

COLD void os_purge_forget_look(void) {
    become(NONE, NOT_SEEN);
}

COLD void os_purge_expect_filter(void) {
    atomic_store_explicit(&filter, EXPECTED, memory_order_seq_cst);
    for (int i = 0; i < LOOKS_MOST && atomic_load_explicit(&calling, memory_order_seq_cst) > 0; i++) {
        syscall(SYS_sched_yield);
    }
}

/* Whether a filter (seccomp) decides which system calls the calling thread may make; true also if
 * that cannot be told. */
static bool is_confined(void) {
    static const char wanted[] = "\nSeccomp:\t0\n";
    struct reader r;
    size_t matched = 0;
    if (!reader_open(&r, "/proc/thread-self/status")) {
        return true;
    }
    while (matched < sizeof wanted - 1 && reader_next(&r) >= 0) {
        /* After a mismatch only the end of a line can begin the text anew. */
        matched = r.last == wanted[matched] ? matched + 1 : r.last == '\n';
    }
    os_close(r.fd);
    return matched < sizeof wanted - 1;
}

COLD void os_purge_look_for_filter(void) {
    if (!is_confined()) {
        become(NOT_SEEN, NONE);
    } else {
        atomic_store_explicit(&filter, EXPECTED, memory_order_seq_cst);
    }
}

/* Purges the ranges by one system call; returns how many, from the first on, are done. */
static size_t purge_by_one_call(const struct iovec *ranges, size_t count) {
    long bytes = os_advise_many(PIDFD_SELF_THREAD_GROUP, ranges, count);
    size_t n = 0;
    if (bytes < 0 && (errno == ENOSYS || errno == EBADF || errno == EPERM)) {
        atomic_store_explicit(&unknown_to_the_kernel, true, memory_order_relaxed);
    }
    for (; n < count && bytes >= (long)ranges[n].iov_len; n++) {
        bytes -= (long)ranges[n].iov_len;
    }
    return n;
}

/* As purge_by_one_call, if there is no filter. Not in a child of vfork or clone: it may get one that is
 * its own, and what it noted of that would be its parent's. */
static size_t purge_by_one_call_unfiltered(const struct iovec *ranges, size_t count) {
    size_t n = 0;
    atomic_fetch_add_explicit(&calling, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&filter, memory_order_seq_cst) == NONE && os_in_own_process()) {
        n = purge_by_one_call(ranges, count);
    }
    atomic_fetch_sub_explicit(&calling, 1, memory_order_release);
    return n;
}

void os_purge_many(const struct iovec *ranges, size_t count, bool may_look, bool *done) {
    int saved_errno = errno;
    size_t n = 0;
    if (count >= RANGES_LEAST && !atomic_load_explicit(&unknown_to_the_kernel, memory_order_relaxed)) {
        /* relaxed: a hint */
        if (atomic_load_explicit(&filter, memory_order_relaxed) == NONE) {
            n = purge_by_one_call_unfiltered(ranges, count);
        } else if (may_look && count >= RANGES_LEAST_TO_LOOK && !is_confined()) {
            n = purge_by_one_call(ranges, count);
        }
    }
    for (size_t i = 0; i < count; i++) {
        done[i] = i < n || os_purge(ranges[i].iov_base, ranges[i].iov_len);
    }
    errno = saved_errno;
}
