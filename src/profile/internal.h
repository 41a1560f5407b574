/* The profile's state, shared by the files of this folder.
 *
 * Promises nothing to other folders. Its lock protects everything in it, except where it says otherwise.
 * Relies on the table and the origins.
 */
#ifndef HAKMEM_PROFILE_INTERNAL_H
#define HAKMEM_PROFILE_INTERNAL_H

#include "os/lock.h"
#include "profile/origins.h"
#include "profile/table.h"

/* Bytes between samples, on average, where nobody asks for others. */
#define PROFILE_INTERVAL_DEFAULT ((uint64_t)512 << 10)

struct profile {
    struct lock lock;
    struct table live;
    struct origins origins;
    uint64_t run;      /* number of the run, which begins when sampling does; records have that of theirs */
    uint64_t interval; /* of this run; 0 before the first */
    bool may_thin;     /* nobody asked for this interval: it may grow while the run lasts */
    unsigned recent;   /* samples since recent_ms */
    uint64_t recent_ms;
    uint64_t haste; /* how many times too fast the samples of the last window came: see thinning.c */
    /* Bytes that are live, by estimate. relaxed everywhere: written under the lock, and whoever reads it
     * without only compares. */
    _Atomic uint64_t bytes;
    uint64_t shadow_blocks, shadow_bytes; /* of all live records */
    uint64_t random;                      /* the generator's state */
    bool grows;                           /* a thread makes the table of live blocks larger */
    /* Snapshots and shares that lead to origins. Grows under the lock, or where it is not 0: relaxed. Where
     * it falls, release pairs with the acquire in profile_start, which may give the origins back. A child of
     * fork has those of its parent's other threads for ever: it only keeps its origins then. */
    _Atomic uint32_t readers;
};
extern INTERNAL struct profile profile;

static inline void profile_begin_reading(void) {
    atomic_fetch_add_explicit(&profile.readers, 1, memory_order_relaxed);
}

static inline void profile_end_reading(void) {
    atomic_fetch_sub_explicit(&profile.readers, 1, memory_order_release);
}

/* A signal has asked for a profile that nobody has begun to write (files.h). Only ever exchanged, acq_rel:
 * who asks and then tries the locks, and who releases one of them and then looks here, come to it one after
 * the other, and the later one sees what the other has done. */
extern INTERNAL _Atomic uint32_t profile_asked_for;
static inline bool profile_is_asked_for(void) {
    return atomic_fetch_or_explicit(&profile_asked_for, 0, memory_order_acq_rel) != 0;
}

/* Releases the lock, and writes the profile that a signal asked for meanwhile. Keeps errno. */
void profile_release(void);

#endif
