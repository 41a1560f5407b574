/* Clocks.
 *
 * Promises to keep errno, and, where the kernel has a vDSO, to make no system call except where a function
 * says so. Relies on libc's clock_gettime.
 */
#ifndef HAKMEM_OS_CLOCK_H
#define HAKMEM_OS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds of a clock that only goes forward, good to a few of them and cheap. */
uint64_t os_now_ms(void);
/* os_now_ms by a system call, for small programs: libc's function is in pages that they have no other use
 * for, and each one that is mapped brings fifteen more. */
uint64_t os_now_ms_by_call(void);
/* Nanoseconds of a clock that only goes forward; exact, for measuring short times. */
uint64_t os_now_ns(void);
/* Nanoseconds of processor time that the calling thread has used. A system call. */
uint64_t os_thread_ns(void);
/* Milliseconds since 1970. */
uint64_t os_real_ms(void);

/* A time of so many milliseconds, as the kernel wants it. */
static inline struct timespec os_timespec_of_ms(uint64_t ms) {
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

/* A counter of the processor's, for the question whether any time has passed: it costs no system call and no
 * page of libc's. OS_TICKS_SHORT ticks take 16 µs to 1 ms; where there is no counter, os_ticks and it are 0.
 * It may jump when the thread moves to another processor. A program that makes the processor refuse it
 * (prctl, PR_SET_TSC) would end by it, as would any that it starts: libc's loader reads it, too. */
#if defined(__x86_64__)
#define OS_TICKS_SHORT ((uint64_t)1 << 20)
static inline uint64_t os_ticks(void) {
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define OS_TICKS_SHORT ((uint64_t)1 << 14)
static inline uint64_t os_ticks(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
#define OS_TICKS_SHORT 0
static inline uint64_t os_ticks(void) {
    return 0;
}
#endif

/* Whether `ticks`, a multiple of OS_TICKS_SHORT or a part of it, have gone by since `*then`; if so, sets
 * `*then` to now. Always true where there is no counter, and perhaps where it has jumped. */
static inline bool os_ticks_passed(uint64_t *then, uint64_t ticks) {
    uint64_t now = os_ticks();
    if (now - *then < ticks) {
        return false;
    }
    *then = now;
    return true;
}

#ifdef HAKMEM_FAULTS
/* For tests: from the `after`th call from now on (1 is the next), os_now_ns is `ns` later than the clock, as
 * if the machine had stood still. */
void os_clock_stall(unsigned after, uint64_t ns);
#endif

#ifdef __cplusplus
}
#endif
#endif
