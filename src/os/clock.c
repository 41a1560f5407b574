#include "os/clock.h"

#include <errno.h>
#include <time.h>

static struct timespec read_clock(clockid_t clock) {
    struct timespec now = {0};
    int saved_errno = errno;
    clock_gettime(clock, &now);
    errno = saved_errno;
    return now;
}

uint64_t os_now_ns(void) {
    struct timespec now = read_clock(CLOCK_MONOTONIC);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t os_real_ms(void) {
    struct timespec now = read_clock(CLOCK_REALTIME);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
