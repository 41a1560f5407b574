#include "os/purge.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/reader.h"

#include <errno.h>
#include <stdatomic.h>

/* linux/pidfd.h has it from 6.14 on; older kernels say EBADF. */
#ifndef PIDFD_SELF_THREAD_GROUP
#define PIDFD_SELF_THREAD_GROUP (-10001)
#endif

/* For fewer ranges it is not worth opening a file. */
#define RANGES_LEAST 8

/* The kernel has refused process_madvise. relaxed everywhere: whoever does not see it yet finds out again */
static _Atomic bool unknown_to_the_kernel;

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

void os_purge_many(const struct iovec *ranges, size_t count, bool may_look, bool *done) {
    int saved_errno = errno;
    size_t n = 0;
    if (count >= RANGES_LEAST && may_look &&
        !atomic_load_explicit(&unknown_to_the_kernel, memory_order_relaxed) && !is_confined()) {
        n = purge_by_one_call(ranges, count);
    }
    for (size_t i = 0; i < count; i++) {
        done[i] = i < n || os_purge(ranges[i].iov_base, ranges[i].iov_len);
    }
    errno = saved_errno;
}
