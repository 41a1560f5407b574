#define _GNU_SOURCE
#include "os/thread.h"

#include "base/bits.h"
#include "os/asleep.h"
#include "os/call.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/program.h"
#include "os/reader.h"
#include "os/sanitized.h"
#include "os/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !SANITIZED

#define STACK_BYTES ((size_t)16 << 10)
/* os_thread_end looks so often whether the thread waits for the caller. */
#define END_NAP_MS 1
/* Where the kernel does not tell whether the thread sleeps, one that was in os_wait at so many looks in a row
 * is taken to wait for the caller: whoever else could do what it waits for would have, as a rule. */
#define LOOKS_UNTOLD 100
/* It yields so often before it sleeps: the thread may be of lower priority, or a tracer has to let it go. */
#define YIELDS_MOST 100
/* Looks, most of them a millisecond apart, for one that has ended by itself: a thread of the program's may
 * have its number by now. */
#define LOOKS_MOST 300
/* Processors that the kernel may tell of: 8192. */
#define CPU_WORDS 128
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static struct {
    _Alignas(64) char stack[STACK_BYTES];
    /* Room for errno, the only thread-local variable that the thread uses: tls_half_bytes on each side of the
     * thread pointer, because architectures differ in where thread-local variables lie. */
    char *tls;
    size_t tls_half_bytes;
    /* A flag at the beginning of `tls`: true, but in a copy of the process it reads as zero. NULL
     * before there is any room. relaxed everywhere, as is the flag: whoever asks knows of the
     * thread by other means. */
    _Atomic(_Atomic bool *) is_here;
    /* The thread's id; the kernel sets it to 0 when the thread uses none of the above any more, with which
     * the acquire loads pair. */
    _Atomic pid_t id;
    /* 1 once the thread is to end. relaxed everywhere: it orders nothing, and the kernel compares it */
    _Atomic uint32_t ends;
    /* The id of the thread that was started last, until it is known that the process counts it no more; and
     * whether it is in os_wait. relaxed everywhere: they order nothing */
    _Atomic pid_t last;
    _Atomic bool waits;
} place SELDOM;

/* The thread that started this one may be a real-time thread where the process's first one is none, or bound
 * to a processor where one spins: nothing would ever be given back there. What need not be changed is left
 * alone, because sandboxes that allow to ask need not allow to set. */
static COLD void be_scheduled_as_the_process(void) {
    static const struct sched_param none;
    unsigned long own[CPU_WORDS];
    unsigned long process[CPU_WORDS];
    int first = os_process_id();
    long policy = syscall(SYS_sched_getscheduler, 0);
    if ((policy == SCHED_FIFO || policy == SCHED_RR) && syscall(SYS_sched_getscheduler, first) != policy) {
        syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
    }
    long bytes = syscall(SYS_sched_getaffinity, first, sizeof process, process);
    if (bytes <= 0 || syscall(SYS_sched_getaffinity, 0, sizeof own, own) != bytes) {
        return;
    }
    bool wider = false;
    for (size_t i = 0; i < (size_t)bytes / sizeof *own; i++) {
        wider = wider || (process[i] & ~own[i]) != 0;
        own[i] |= process[i];
    }
    if (wider) {
        syscall(SYS_sched_setaffinity, 0, bytes, own);
    }
}

/* What the process's first thread has ended with, if it has: the kernel takes the status of the last thread
 * for the process's, and knows no difference between this one and the program's. */
static COLD int status_of_first_thread(void) {
    struct reader stat;
    int state = 0;
    unsigned last = 0; /* number, of the fields */
    if (!reader_open(&stat, "/proc/self/stat")) {
        return 0;
    }
    for (int before = 0; reader_next(&stat) >= 0; before = stat.last) {
        if (before == ')') { /* of which the name may have some */
            state = reader_next(&stat);
        }
        if (stat.last >= '0' && stat.last <= '9') {
            last = last * 10 + (unsigned)(stat.last - '0');
        } else if (stat.last == ' ') {
            last = 0;
        }
    }
    os_close(stat.fd);
    return state == 'Z' ? (int)(last >> 8 & 0xff) : 0;
}

static COLD int run_in_thread(void *run) {
    void (*function)(void);
    memcpy(&function, &run, sizeof function);
    be_scheduled_as_the_process();
    syscall(SYS_prctl, PR_SET_NAME, "hakmem", 0, 0, 0);
    /* Gives the thread descriptors of its own: the program may count on the number of the next one, and close
     * those that it did not open. */
    syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE);
    function();
    return os_program_has_threads() ? 0 : status_of_first_thread();
}

/* Bytes of room needed on each side of the thread pointer: errno is as far from it as in the calling thread,
 * and the flag of `is_here` stands at the far end. */
static size_t half_needed(void) {
    intptr_t distance = (intptr_t)&errno - (intptr_t)__builtin_thread_pointer();
    return round_up((size_t)(distance < 0 ? -distance : distance) + 512, OS_PAGE_BYTES);
}

/* Room that is too small is not given back: an earlier thread may not be quite gone, and still use it. */
COLD void os_thread_prepare(void) {
    int saved_errno = errno;
    size_t half = half_needed();
    if (half > place.tls_half_bytes) {
        void *room = os_reserve(2 * half, OS_PAGE_BYTES);
        if (room != NULL && os_commit(room, 2 * half)) {
            madvise(room, 2 * half, MADV_WIPEONFORK);
            place.tls = room;
            place.tls_half_bytes = half;
        }
    }
    if (place.tls != NULL) {
        _Atomic bool *is_here = (_Atomic bool *)place.tls;
        atomic_store_explicit(is_here, true, memory_order_relaxed);
        atomic_store_explicit(&place.is_here, is_here, memory_order_relaxed);
    }
    errno = saved_errno;
}

/* Waits until an earlier thread is gone, which is about to end: a matter of microseconds. False if it is not
 * gone after 10,000 looks. */
static bool wait_until_unused(void) {
    for (int i = 0; i < 10000; i++) {
        if (atomic_load_explicit(&place.id, memory_order_acquire) == 0) {
            return true;
        }
        syscall(SYS_sched_yield);
    }
    return false;
}

/* libc's clone, under the name that api/sandbox.c does not stand in front of. */
extern int __clone(int (*run)(void *), void *stack, int flags, void *argument, ...);

/* There in a program that was built with ThreadSanitizer, which wants to know of each thread. */
extern __attribute__((weak)) void __tsan_init(void);

COLD bool os_thread_start(void (*run)(void)) {
    int saved_errno = errno;
    bool started = false;
    bool own_descriptors = __tsan_init == NULL && syscall(SYS_close_range, ~0u, ~0u, 0) == 0;
    if (own_descriptors && wait_until_unused() && half_needed() <= place.tls_half_bytes) {
        /* First of all: the handler of a signal may fork, and its child would go on here
         * with `tls` emptied. */
        uint64_t before;
        os_block_signals(&before);
        os_thread_prepare();
        char *pointer = place.tls + place.tls_half_bytes;
        memcpy(pointer, &pointer, sizeof(char *)); /* x86-64 finds its thread pointer there */
        void *argument;
        memcpy(&argument, &run, sizeof argument);
        atomic_store_explicit(&place.ends, 0, memory_order_relaxed);
        int id = __clone(run_in_thread, place.stack + STACK_BYTES,
                         CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                             CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                         argument, &place.id, pointer, &place.id);
        if (id > 0) {
            atomic_store_explicit(&place.last, id, memory_order_relaxed);
        }
        os_restore_signals(&before);
        started = id > 0;
    }
    errno = saved_errno;
    return started;
}

/* Sleeps while `word` is `value`, for `ms` at most. Not private to the process: the kernel wakes those who
 * wait for `id` as if others might. */
static void nap(const void *word, uint32_t value, uint64_t ms) {
    struct timespec time = os_timespec_of_ms(ms);
    syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0L);
}

COLD bool os_thread_sleep(uint64_t ms) {
    nap(&place.ends, 0, ms);
    return atomic_load_explicit(&place.ends, memory_order_relaxed) == 0;
}

RARE void os_thread_wake(void) {
    KEEPING_ERRNO(long, syscall(SYS_futex, &place.ends, FUTEX_WAKE, 1, NULL, NULL, 0L));
}

void os_thread_note_wait(bool begins) {
    if (UNLIKELY(os_thread_is_own())) {
        atomic_store_explicit(&place.waits, begins, memory_order_relaxed);
    }
}

/* Whether the thread sleeps in os_wait, for what nobody who runs will do. One that was woken does not sleep
 * any more, whether or not it has a processor yet. */
static bool waits_for_caller(pid_t id) {
    struct os_sleep sleep;
    return atomic_load_explicit(&place.waits, memory_order_relaxed) && os_asleep(id, &sleep) &&
           sleep.call == SYS_futex;
}

/* The thread uses nothing any more, and counts as one of the process's for a moment longer. */
static void wait_until_uncounted(pid_t id, unsigned looks_most) {
    for (unsigned i = 0; syscall(SYS_tgkill, os_process_id(), id, 0) == 0; i++) {
        if (i == looks_most) {
            return;
        }
        if (i < YIELDS_MOST) {
            syscall(SYS_sched_yield);
        } else {
            os_sleep_ms(1);
        }
    }
    /* Its number goes first, and what counts for unshare last, but all of it in one holding of the kernel's
     * lock of its tasks: to look for children, which takes that lock, waits for the end of it. */
    syscall(SYS_waitid, P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT, NULL);
    /* not that of the next one, which another thread of the program may have started */
    atomic_compare_exchange_strong_explicit(&place.last, &id, 0, memory_order_relaxed, memory_order_relaxed);
}

/* Whether waits_for_caller can tell: not of a process of another user's, say. */
RARE static bool is_told_of(pid_t id) {
    struct reader r;
    bool told = reader_open_of_thread(&r, id, "syscall");
    if (told) {
        os_close(r.fd);
    }
    return told;
}

RARE bool os_thread_end(void) {
    pid_t id = atomic_load_explicit(&place.last, memory_order_relaxed);
    if (id == 0 || !os_in_own_process() || os_thread_is_lost()) {
        return true;
    }
    int saved_errno = errno;
    bool waits = false;
    unsigned looks_in_wait = 0;
    atomic_store_explicit(&place.ends, 1, memory_order_relaxed);
    os_thread_wake();
    /* acquire pairs with the kernel's store of 0, as in os_thread_exists; another thread of the program may
     * have started the next one. To look comes before to nap: signals that come faster than naps end would
     * keep the caller from what the thread waits for, for ever. */
    while (!(waits = waits_for_caller(id) || (looks_in_wait >= LOOKS_UNTOLD && !is_told_of(id))) &&
           atomic_load_explicit(&place.id, memory_order_acquire) == id) {
        nap(&place.id, (uint32_t)id, END_NAP_MS);
        bool in_wait = atomic_load_explicit(&place.waits, memory_order_relaxed);
        looks_in_wait = in_wait ? looks_in_wait + 1 : 0;
    }
    if (!waits) {
        wait_until_uncounted(id, UINT_MAX);
    }
    errno = saved_errno;
    return !waits;
}

/* A directory has one link for each of those in it, and two more. */
RARE bool os_thread_is_only_other(void) {
    int saved_errno = errno;
    struct stat threads;
    pid_t last = atomic_load_explicit(&place.last, memory_order_relaxed);
    /* acquire pairs with the kernel's store of 0, as in os_thread_exists */
    pid_t id = atomic_load_explicit(&place.id, memory_order_acquire);
    bool is =
        id != 0 && stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 2 + 2 && is_told_of(id);
    if (!is && last != 0 && !os_thread_exists() && os_in_own_process() && !os_thread_is_lost()) {
        wait_until_uncounted(last, LOOKS_MOST);
    }
    errno = saved_errno;
    return is;
}

bool os_thread_is_own(void) {
    return (uintptr_t)__builtin_frame_address(0) - (uintptr_t)place.stack < STACK_BYTES;
}

/* Opens it by its name in /proc, which is of the process's first thread, and takes no other system calls than
 * the library's thread makes anyway. Sockets cannot be opened, and a file has a position of its own then, so
 * that the program would write over what is written here: of these, the descriptor itself is asked for. */
RARE int os_thread_borrow_error_output(void) {
    struct stat status;
    int opened =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd/2", O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (opened >= 0 && (fstat(opened, &status) != 0 || !S_ISREG(status.st_mode))) {
        return opened;
    }
    int process = (int)syscall(SYS_pidfd_open, os_process_id(), 0);
    int borrowed = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);
    os_close(process);
    if (borrowed < 0) {
        return opened;
    }
    os_close(opened);
    return borrowed;
}

bool os_thread_exists(void) {
    /* acquire pairs with the kernel's store of 0: all that the thread did is seen */
    return atomic_load_explicit(&place.id, memory_order_acquire) != 0;
}

COLD bool os_thread_is_lost(void) {
    _Atomic bool *is_here = atomic_load_explicit(&place.is_here, memory_order_relaxed);
    return is_here != NULL && !atomic_load_explicit(is_here, memory_order_relaxed);
}

void os_thread_lost_by_fork(void) {
    /* relaxed: the thread never ran in this memory, so there is nothing of it to be seen */
    atomic_store_explicit(&place.id, 0, memory_order_relaxed);
    atomic_store_explicit(&place.last, 0, memory_order_relaxed);
}

#endif
