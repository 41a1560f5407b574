/* How long something that the OS refuses is not tried again: 0.1 s at first, twice as long with each further
 * refusal, 10 s at most.
 *
 * Promises no lock and no system call. Whoever races with another at worst waits as long as before.
 * Relies on os_now_ms.
 */
#ifndef HAKMEM_OS_BACKOFF_H
#define HAKMEM_OS_BACKOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_MS 100
#define BACKOFF_MOST_MS 10000

/* Zeroed: nothing was refused. */
struct backoff {
    _Atomic uint64_t until_ms; /* relaxed, both: numbers that stand alone */
    _Atomic uint32_t pause_ms;
};

/* It was refused just now; no longer if this already holds. */
void backoff_begin(struct backoff *backoff);
/* It was done, or whatever refused it is gone. */
void backoff_end(struct backoff *backoff);
/* Whether it is not to be tried yet. */
bool backoff_holds(const struct backoff *backoff);
/* Whether it was refused so often that the pause grows no more. */
bool backoff_is_longest(const struct backoff *backoff);

#endif
