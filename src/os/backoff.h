/* How long something that the OS refuses is not tried again: 0.1 s at first, twice as long with each further
 * refusal, 10 s at most.
 *
 * Promises no lock and no system call, for any number of threads: of two that race, one at worst waits as
 * long as before. Relies on os_now_ms.
 */
#ifndef HAKMEM_OS_BACKOFF_H
#define HAKMEM_OS_BACKOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_MS 100
#define BACKOFF_MOST_MS 10000

/* Zeroed: nothing was refused. relaxed everywhere: both are numbers that order nothing. */
struct backoff {
    _Atomic uint64_t until_ms; /* on the clock of os_now_ms: no attempt before */
    _Atomic uint32_t pause_ms; /* the last pause; 0: nothing was refused since backoff_end */
};

/* To be called when the OS has refused: begins the next, longer pause, unless one still holds. */
void backoff_begin(struct backoff *backoff);
/* To be called when the OS has done it, or what made it refuse is gone: forgets all refusals. */
void backoff_end(struct backoff *backoff);
/* Whether a pause holds, so that the OS is not to be asked yet. */
bool backoff_holds(const struct backoff *backoff);
/* Whether the OS has refused so often that the pause grows no more. */
bool backoff_is_longest(const struct backoff *backoff);

#endif
