#define _GNU_SOURCE
#include "os/write.h"

#include "base/bits.h"
#include "os/signal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 1

/* The signals that a write may send: nobody reads, or the file would be longer than the process's limit. */
static const uint64_t signals_of_writes = OS_SIGNAL_BIT(SIGPIPE) | OS_SIGNAL_BIT(SIGXFSZ);

/* Blocks the signals that a write may send, and stores in `mask` what was blocked before. Returns
 * those of them that were not pending: if they are after the write, they come of that, and not of
 * what the program did. */
static COLD uint64_t hold_back(uint64_t *mask) {
    uint64_t pending = 0;
    *mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals_of_writes, mask, sizeof *mask);
    if ((*mask & signals_of_writes) != 0) {
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    }
    return signals_of_writes & ~pending;
}

/* Takes a pending signal of the set `ours` away, so that it does not reach the program. */
static COLD void take_signal(uint64_t ours) {
    struct timespec at_once = {0};
    while (syscall(SYS_rt_sigtimedwait, &ours, NULL, &at_once, sizeof ours) < 0 && errno == EINTR) {
    }
}

/* As write, with errno, but without its signals. */
static COLD long write_some(int fd, const char *bytes, size_t length) {
    uint64_t mask;
    uint64_t ours = hold_back(&mask);
    long written = syscall(SYS_write, fd, bytes, length);
    int error = errno;
    if (written < 0 && (error == EPIPE || error == EFBIG)) {
        take_signal(ours & OS_SIGNAL_BIT(error == EPIPE ? SIGPIPE : SIGXFSZ));
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    errno = error;
    return written;
}

COLD bool os_has_room_in_time(int fd) {
    if (fd < 0) { /* an error, which poll passes over */
        return true;
    }
    struct timespec left = {.tv_sec = PATIENCE_S}; /* the kernel leaves in it what is left */
    struct pollfd what = {.fd = fd, .events = POLLOUT};
    long ready;
    do {
        ready = syscall(SYS_ppoll, &what, 1, &left, NULL, 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

COLD int os_write_all(int fd, const char *bytes, size_t length, enum patience patience) {
    while (length > 0) {
        if (patience == PATIENCE_LIMITED && !os_has_room_in_time(fd)) {
            return EAGAIN;
        }
        long written = write_some(fd, bytes, length);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (written == 0) {
            return EIO;
        } else if (errno == EAGAIN) {
            if (patience == PATIENCE_NONE || !os_has_room_in_time(fd)) {
                return EAGAIN;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

void os_write(int fd, const char *bytes, size_t length) {
    int saved_errno = errno;
    (void)os_write_all(fd, bytes, length, PATIENCE_NONE); /* there is nobody to tell of an error */
    errno = saved_errno;
}
