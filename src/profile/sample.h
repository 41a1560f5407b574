/* The profile: which sampled blocks are live, and what was sampled so far.
 *
 * Promises that a figure counts only what was sampled since the profile was last started; that a block which
 * is live then is followed until it is freed, whether sampling goes on or not; and that one lock, held for a
 * few hundred instructions as a rule and never while something else is waited for, protects all of it. The
 * lock comes after all others. Relies on os for memory and nothing that allocates.
 */
#ifndef HAKMEM_PROFILE_SAMPLE_H
#define HAKMEM_PROFILE_SAMPLE_H

#include "profile/origins.h"

#include <stdatomic.h>
#include <stdbool.h>

#define PROFILE_INTERVAL_DEFAULT ((uint64_t)512 << 10)
#define PROFILE_INTERVAL_MOST ((uint64_t)1 << 40)

/* What those who sample look at. `run` grows whenever sampling begins or ends: its release store pairs with
 * the acquire load of whoever then reads the interval. */
struct profile_switch {
    _Atomic uint64_t run;
    _Atomic uint64_t interval; /* 0: off. relaxed: see above */
};
extern __attribute__((visibility("hidden"))) struct profile_switch profile_switch;

/* Forgets all figures and samples every `interval` bytes on average from now on (0: as the option says).
 * Where that is what it does already, nothing changes. */
void profile_start(uint64_t interval);
/* What was sampled so far stays known. */
void profile_stop(void);

/* What the caller does for a block that is to be sampled; each takes the lock. */

/* The block `address` of `size` bytes, for the `chosen` of which it was sampled (all of it, or the growth of
 * a block that may be known already). `shadow` is the block that lies where it would have lain. False if the
 * profile was stopped or has no memory: the block is then not sampled. */
bool profile_add(uintptr_t address, void *shadow, size_t size, size_t chosen, const uintptr_t *frames,
                 size_t depth);
/* It is being freed: gives its shadow, NULL if it has none or is none of the profile's. */
void *profile_remove(uintptr_t address);
/* It has grown or shrunk without being sampled anew. False if it counts as not sampled from now on. */
bool profile_resize(uintptr_t address, size_t size);
/* It has moved. */
void profile_rename(uintptr_t from, uintptr_t to);

/* Bytes live by estimate. */
uint64_t profile_live_bytes(void);

/* What the profile itself costs. */
struct profile_costs {
    uint64_t table_bytes; /* pages of its own, nearly all resident */
    uint64_t shadow_blocks, shadow_bytes;
};
void profile_costs(struct profile_costs *out);

/* Around fork. */
void profile_lock_for_fork(void);
void profile_unlock_after_fork(bool child);

#endif
