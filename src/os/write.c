#define _GNU_SOURCE
#include "os/write.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 1
/* A terminal may say that it has room, and have too little for a character that it writes as two: it is asked
 * again so late. */
#define NAP_MS 10

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
static RARE void take_signal(uint64_t ours) {
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

/* Waits for at most PATIENCE_S until `fd` has room; whether it has, or an error to report. */
static RARE bool has_room_in_time(int fd) {
    struct timespec left = {.tv_sec = PATIENCE_S}; /* the kernel leaves in it what is left */
    struct pollfd what = {.fd = fd, .events = POLLOUT};
    long ready;
    do {
        ready = syscall(SYS_ppoll, &what, 1, &left, NULL, 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Of the kernel's list of devices: /dev/tty is whichever terminal controls the process now, and to open
 * /dev/ptmx makes another one. */
#define ALTERNATE_CONSOLES 5
#define TTY 0
#define PTMX 2

static RARE bool is_terminal_by_itself(int fd) {
    struct stat found;
    return isatty(fd) != 0 && fstat(fd, &found) == 0 && found.st_rdev != makedev(ALTERNATE_CONSOLES, TTY) &&
           found.st_rdev != makedev(ALTERNATE_CONSOLES, PTMX);
}

/* A descriptor of the terminal `fd` that does not block, as the program's own has to; -1 if it is none, or
 * cannot be opened: where /proc is not there, and those of other users. */
static RARE int open_terminal_again(int fd) {
    char path[32] = "";
    struct text name = TEXT_ON(path);
    if (!is_terminal_by_itself(fd)) {
        return -1;
    }
    text_string(&name, "/proc/thread-self/fd/");
    text_decimal(&name, (uint64_t)fd);
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Whether a descriptor that says it has room has taken nothing since `*since_ms`, 0 at first, for as long as
 * anybody waits. Naps, but for the first time. */
static RARE bool is_refused_for_long(uint64_t *since_ms) {
    if (*since_ms == 0) {
        *since_ms = os_now_ms();
        return false;
    }
    os_sleep_ms(NAP_MS);
    return os_now_ms() - *since_ms > (uint64_t)PATIENCE_S * 1000;
}

static COLD int write_all(int fd, const char *bytes, size_t length, enum patience patience) {
    uint64_t refused_ms = 0;
    while (length > 0) {
        if (patience == PATIENCE_LIMITED && !has_room_in_time(fd)) {
            return EAGAIN;
        }
        long written = write_some(fd, bytes, length);
        if (written > 0) {
            refused_ms = 0;
            bytes += written;
            length -= (size_t)written;
        } else if (written == 0) {
            return EIO;
        } else if (errno == EAGAIN) {
            if (patience == PATIENCE_NONE || !has_room_in_time(fd) || is_refused_for_long(&refused_ms)) {
                return EAGAIN;
            }
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

COLD int os_write_all(int fd, const char *bytes, size_t length, enum patience patience) {
    if (fd < 0) { /* for which poll would wait */
        return EBADF;
    }
    int again = patience == PATIENCE_LIMITED ? open_terminal_again(fd) : -1;
    int error = write_all(again < 0 ? fd : again, bytes, length, patience);
    if (again >= 0) {
        os_close(again);
    }
    return error;
}

void os_write(int fd, const char *bytes, size_t length, enum patience patience) {
    int saved_errno = errno;
    (void)os_write_all(fd, bytes, length, patience); /* there is nobody to tell of an error */
    errno = saved_errno;
}
