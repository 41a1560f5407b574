/* The profile: which sampled blocks are live, and what was sampled so far.
 *
 * Promises that a figure counts only what was sampled since the profile was last started; that a sampled
 * block is followed until it is freed, whether sampling goes on or not; and that one lock, held for a few
 * hundred instructions as a rule, for as long as it takes to go through all samples or call stacks by who
 * reads them or has the table grow, and never while something else is waited for, protects all of it. The
 * lock comes after all others. Relies on os for memory and nothing that allocates.
 */
#ifndef HAKMEM_PROFILE_SAMPLE_H
#define HAKMEM_PROFILE_SAMPLE_H

#include "profile/origins.h"

#include <stdatomic.h>
#include <stdbool.h>

#define PROFILE_INTERVAL_MOST ((uint64_t)1 << 40)

/* What those who sample look at. `run` grows whenever sampling begins or ends or the interval
 * changes: release in set_interval pairs with the acquire load of threads that sample, which then
 * read the interval. */
struct profile_switch {
    _Atomic uint64_t run;
    _Atomic uint64_t interval; /* 0: off. relaxed everywhere: `run` orders it */
};
extern __attribute__((visibility("hidden"))) struct profile_switch profile_switch;

/* Forgets all figures and samples every `interval` bytes on average from now on (0: as the option says).
 * Where that is what it does already, nothing changes. Takes the lock. */
void profile_start(uint64_t interval);
/* Ends sampling; what was sampled so far stays known. Takes the lock. */
void profile_stop(void);

/* A block that is to be known as a sample. */
struct sample {
    uintptr_t address;
    void *shadow;  /* the block that lies where it would have lain, or NULL */
    size_t size;   /* its bytes */
    size_t chosen; /* those that it was sampled for: all, or those by which a block has grown that may be
                      known already */
    const uintptr_t *frames; /* its call stack, of `depth` frames */
    size_t depth;
};
/* Makes the sample known, which was chosen while profile_switch.run was `run`. False if sampling was switched
 * since, because the block would count with the weight of another interval, or there is no memory: the block
 * is then not sampled. Takes the lock. */
bool profile_add(const struct sample *sample, uint64_t run);
/* Forgets the sampled block at `address`, which is being freed, and returns its shadow; NULL if it has none
 * or is not known. Takes the lock. */
void *profile_remove(uintptr_t address);
/* Notes that the block at `address` has grown or shrunk to `size` without being sampled anew. False if it
 * counts as not sampled from now on, or did so already. Takes the lock. */
bool profile_resize(uintptr_t address, size_t size);
/* Notes that the block at `from`, if it is known, has moved to `to`. Takes the lock. */
void profile_rename(uintptr_t from, uintptr_t to);

/* Bytes that are live, estimated from the samples. Takes no lock. */
uint64_t profile_live_bytes(void);

/* What the profile itself costs. Takes the lock. */
struct profile_costs {
    uint64_t table_bytes; /* pages of its tables, nearly all resident */
    uint64_t shadow_blocks, shadow_bytes;
};
void profile_costs(struct profile_costs *out);

/* Holds the profile's lock around fork; `child` says which process the caller is in. */
void profile_lock_for_fork(void);
void profile_unlock_after_fork(bool child);

#endif
