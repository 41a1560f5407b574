/* Where sampled blocks come from: call stacks, each kept once, and what is counted for them.
 *
 * Promises that an origin and its tallies, once made, stay where they are for ever, so that they may be read
 * without the lock but for the figures. Relies on pages; whoever changes them has the lock.
 */
#ifndef HAKMEM_PROFILE_ORIGINS_H
#define HAKMEM_PROFILE_ORIGINS_H

#include <stddef.h>
#include <stdint.h>

/* More frames than that are cut off at the outer end. */
#define FRAMES_MOST 128

struct figures {
    uint64_t live_blocks, live_bytes;   /* sampled, and not yet freed */
    uint64_t total_blocks, total_bytes; /* sampled since the profile was started */
};

/* What came from one call stack in blocks of nearly one size: readers scale the samples of a tally by their
 * mean size, which is right only if they differ little. */
struct tally {
    struct tally *next; /* of the same origin */
    struct origin *origin;
    unsigned size_group;
    struct figures figures;
};

struct origin {
    struct origin *older; /* in the list of all */
    struct origin *next;  /* of the same hash */
    struct tally *tallies;
    uint64_t hash;
    size_t number; /* counted from 0, in the order of making */
    size_t depth;
    uintptr_t frames[]; /* return addresses, innermost first */
};

struct origins {
    struct origin *newest;
    struct origin **heads; /* by hash */
    size_t capacity;       /* of heads: a power of two, or 0 */
    size_t count, tallies;
    char *room, *room_end; /* for the next ones */
    size_t taken_bytes;
};

/* The tally for blocks of `size` from that call stack, made if need be; NULL if there is no memory. */
struct tally *origins_tally(struct origins *origins, const uintptr_t *frames, size_t depth, size_t size);
/* The tally of the same call stack for another size; NULL as above. */
struct tally *origins_tally_of(struct origins *origins, struct origin *origin, size_t size);
/* All figures become 0. */
void origins_forget(struct origins *origins);

#endif
