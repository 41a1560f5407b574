/* alarms.h: a signal that comes again and again, whatever the program is doing. */
#ifndef ALARMS_H
#define ALARMS_H

#include <signal.h>
#include <sys/time.h>

#include "check.h"

static inline void begin_alarms(void (*handler)(int), int interval_us) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {.it_interval = {.tv_usec = interval_us}, .it_value = {.tv_usec = interval_us}};
    REQUIRE(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

#endif
