#include "os/clock.h"

#include "os/call.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec read_clock(clockid_t clock) {
    struct timespec now = {0};
    KEEPING_ERRNO(int, clock_gettime(clock, &now));
    return now;
}

#ifdef HAKMEM_FAULTS
static struct {
    /* relaxed everywhere: a test sets them, and which thread reads the clock first does not matter */
    _Atomic unsigned after;     /* calls of os_now_ns until the stall; 0: none is to come */
    _Atomic uint64_t next_ns;   /* how long that stall is */
    _Atomic uint64_t passed_ns; /* all stalls so far */
} stall;

void os_clock_stall(unsigned after, uint64_t ns) {
    atomic_store_explicit(&stall.next_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&stall.after, after, memory_order_relaxed);
}

static uint64_t stalled_ns(void) {
    if (atomic_load_explicit(&stall.after, memory_order_relaxed) > 0 &&
        atomic_fetch_sub_explicit(&stall.after, 1, memory_order_relaxed) == 1) {
        atomic_fetch_add_explicit(&stall.passed_ns,
                                  atomic_load_explicit(&stall.next_ns, memory_order_relaxed),
                                  memory_order_relaxed);
    }
    return atomic_load_explicit(&stall.passed_ns, memory_order_relaxed);
}
#else
static inline uint64_t stalled_ns(void) {
    return 0;
}
#endif

static uint64_t in_ns(struct timespec time) {
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t in_ms(struct timespec time) {
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

uint64_t os_now_ms(void) {
    return in_ms(read_clock(CLOCK_MONOTONIC_COARSE));
}

uint64_t os_now_ms_by_call(void) {
    struct timespec now = {0};
    KEEPING_ERRNO(long, syscall(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &now));
    return in_ms(now);
}

uint64_t os_now_ns(void) {
    return in_ns(read_clock(CLOCK_MONOTONIC)) + stalled_ns();
}

uint64_t os_thread_ns(void) {
    return in_ns(read_clock(CLOCK_THREAD_CPUTIME_ID));
}

uint64_t os_real_ms(void) {
    return in_ms(read_clock(CLOCK_REALTIME));
}
