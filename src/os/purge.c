#include "os/purge.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/program.h"
#include "os/reader.h"
#include "os/signal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/pidfd.h has it from 6.14 on; older kernels say EBADF. */
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif

/* For fewer ranges it is not worth opening a file. */
#define RANGES_LEAST_TO_LOOK 8
#define RANGES_LEAST 2
/* Whoever waits for calls yields so often before he sleeps: those in them may be of lower priority. */
#define YIELDS_MOST 100

/* The kernel has refused process_madvise. relaxed everywhere: whoever does not see it yet finds out again */
static _Atomic bool unknown_to_the_kernel;

/* What is known of filters. */
enum filter {
    NO_NOTICE, /* one may come without notice */
    NOT_SEEN,  /* notice will be given; nobody has looked */
    NONE,
    EXPECTING, /* from here on nobody begins a call */
    EXPECTED,  /* and nobody is in one */
};
/* seq_cst everywhere, and so is `calling` where it grows: a caller counts itself and then reads `filter`,
 * os_purge_expect_filter writes that and then reads the count, so that one of them sees the other. */
static _Atomic uint32_t filter;
/* Threads that are about to make the call, or in it. Release where it shrinks pairs with the load in
 * os_purge_expect_filter. */
static _Atomic uint32_t calling;

static uint32_t what_is_known(void) {
    return atomic_load_explicit(&filter, memory_order_seq_cst);
}

static void become(uint32_t from, uint32_t to) {
    atomic_compare_exchange_strong_explicit(&filter, &from, to, memory_order_seq_cst, memory_order_seq_cst);
}

static inline bool expects_none(void) {
    uint32_t known = what_is_known();
    return known == NOT_SEEN || known == NONE;
}

RARE bool os_purge_expects_no_filter(void) {
    return expects_none();
}

bool os_purge_sees_no_filter(void) {
    return what_is_known() == NONE;
}

OFTEN void os_purge_trust_notice(void) {
    become(NO_NOTICE, NOT_SEEN);
}

void os_purge_forget_look(void) {
    become(NONE, NOT_SEEN);
}

static bool somebody_calls(void) {
    return atomic_load_explicit(&calling, memory_order_seq_cst) > 0;
}

/* Waits until nobody calls, or another one has waited: a filter of his may forbid to wait. */
COLD static void wait_for_calls(void) {
    for (unsigned i = 0; somebody_calls() && what_is_known() != EXPECTED; i++) {
        if (i < YIELDS_MOST) {
            syscall(SYS_sched_yield);
        } else {
            os_sleep_ms(1);
        }
    }
}

COLD void os_purge_expect_filter(void) {
    uint32_t known = what_is_known();
    if (known == EXPECTED) {
        return; /* the filter before may forbid what follows */
    }
    while (known < EXPECTING && !atomic_compare_exchange_weak_explicit(
                                    &filter, &known, EXPECTING, memory_order_seq_cst, memory_order_seq_cst)) {
    }
    if (somebody_calls()) {
        /* In a child of vfork these are its parent's threads, whose filter it will not be, and in one that
         * was not told of its fork, nobody. */
        if (!os_in_own_process()) {
            return;
        }
        wait_for_calls();
    }
    become(EXPECTING, EXPECTED);
}

/* Whether a filter (seccomp) decides which system calls the calling thread may make. */
enum seen { SEEN_NONE, SEEN_ONE, SEEN_NOTHING };

static enum seen look(void) {
    static const char wanted[] = "\nSeccomp:\t";
    struct reader r;
    size_t matched = 0;
    if (!reader_open(&r, "/proc/thread-self/status")) {
        return SEEN_NOTHING;
    }
    while (matched < sizeof wanted - 1 && reader_next(&r) >= 0) {
        /* After a mismatch only the end of a line can begin the text anew. */
        matched = r.last == wanted[matched] ? matched + 1 : r.last == '\n';
    }
    int mode = matched == sizeof wanted - 1 ? reader_next(&r) : -1;
    os_close(r.fd);
    return mode == '0' ? SEEN_NONE : mode > 0 ? SEEN_ONE : SEEN_NOTHING;
}

void os_purge_look_for_filter(void) {
    if (!expects_none() || !os_started_the_program()) {
        return;
    }
    int saved_errno = errno;
    enum seen seen = look();
    errno = saved_errno;
    if (seen == SEEN_NONE) {
        become(NOT_SEEN, NONE);
    } else if (seen == SEEN_ONE) {
        become(NOT_SEEN, EXPECTING);
        become(NONE, EXPECTING);
    } else {
        os_purge_forget_look();
    }
}

/* Purges the ranges by one system call; returns how many, from the first on, are done. */
static size_t purge_by_one_call(const struct iovec *ranges, size_t count) {
    long bytes = os_advise_many(PIDFD_SELF_THREAD, ranges, count);
    size_t n = 0;
    if (bytes < 0 && (errno == ENOSYS || errno == EBADF || errno == EPERM)) {
        atomic_store_explicit(&unknown_to_the_kernel, true, memory_order_relaxed);
    }
    for (; n < count && bytes >= (long)ranges[n].iov_len; n++) {
        bytes -= (long)ranges[n].iov_len;
    }
    return n;
}

/* Whether a call is worth a try, without any of the kernel's. */
static bool may_call(size_t count, bool may_look) {
    uint32_t known = what_is_known();
    return count >= RANGES_LEAST && !atomic_load_explicit(&unknown_to_the_kernel, memory_order_relaxed) &&
           (known == NONE || (known < EXPECTING && may_look && count >= RANGES_LEAST_TO_LOOK));
}

/* As purge_by_one_call, if there is no filter, and none comes meanwhile. Not in a child of vfork or clone: it
 * may get one of its own, and what it notes of that is its parent's. No signals, because their handlers may
 * install a filter, and would wait for the thread that they have interrupted. */
static size_t purge_by_one_call_if_unfiltered(const struct iovec *ranges, size_t count, bool may_look) {
    uint64_t before;
    size_t n = 0;
    if (!os_in_own_process()) {
        return 0;
    }
    os_block_signals(&before);
    atomic_fetch_add_explicit(&calling, 1, memory_order_seq_cst);
    uint32_t known = what_is_known();
    if (known == NONE || (known < EXPECTING && may_look && look() == SEEN_NONE)) {
        n = purge_by_one_call(ranges, count);
    }
    atomic_fetch_sub_explicit(&calling, 1, memory_order_release);
    os_restore_signals(&before);
    return n;
}

void os_purge_many(const struct iovec *ranges, size_t count, bool may_look, bool *done) {
    int saved_errno = errno;
    size_t n = may_call(count, may_look) ? purge_by_one_call_if_unfiltered(ranges, count, may_look) : 0;
    for (size_t i = 0; i < count; i++) {
        done[i] = i < n || os_purge(ranges[i].iov_base, ranges[i].iov_len);
    }
    errno = saved_errno;
}
