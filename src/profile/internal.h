/* The profile's state, shared by the files of this folder.
 *
 * Promises nothing to other folders. Everything in it is protected by its lock but what says otherwise.
 */
#ifndef HAKMEM_PROFILE_INTERNAL_H
#define HAKMEM_PROFILE_INTERNAL_H

#include "os/lock.h"
#include "profile/sample.h"
#include "profile/table.h"

struct profile {
    struct lock lock;
    struct table live;
    struct origins origins;
    uint64_t run;      /* what records of this run have; changes when sampling begins */
    uint64_t interval; /* of this run; 0 before the first */
    bool may_thin;     /* nobody asked for this interval: it may grow while the run lasts */
    unsigned recent;   /* samples since recent_ms */
    uint64_t recent_ms;
    uint64_t haste;         /* of the samples before: see thinning.c */
    _Atomic uint64_t bytes; /* live by estimate; relaxed: others only compare */
    uint64_t shadow_blocks, shadow_bytes;
    uint64_t random;
};
extern INTERNAL struct profile profile;

#endif
