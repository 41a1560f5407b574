/* Where sampled blocks come from: call stacks, each kept once, and what is counted for them.
 *
 * Promises that an origin and its tallies, once made, stay where they are until origins_give, so that all of
 * them but the figures and the links may be read without the profile's lock; and that their memory has a
 * bound, some 72 MiB: beyond it stacks that are new share origins, so that the sums stay right. Relies on
 * pages; callers hold the lock.
 */
#ifndef HAKMEM_PROFILE_ORIGINS_H
#define HAKMEM_PROFILE_ORIGINS_H

#include <stddef.h>
#include <stdint.h>

/* Of deeper call stacks the outermost frames are cut off. */
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

/* One call stack, or all those of which no more is kept than its innermost frame, or none. */
struct origin {
    struct origin *older; /* in the list of all */
    struct origin *next;  /* in the list of those under the same head */
    struct tally *tallies;
    uint64_t hash;
    size_t number; /* counted from 0, in the order of making */
    size_t depth;
    uintptr_t frames[]; /* return addresses, innermost first */
};

struct origins {
    struct origin *newest;
    struct origin **heads; /* hash table of lists */
    size_t capacity;       /* of heads: a power of two, or 0 */
    size_t count, tallies; /* how many origins and tallies there are */
    struct room *rooms;    /* memory taken for all of them */
    char *room, *room_end; /* what is left of the newest one, for the next ones */
    size_t taken_bytes;    /* of all rooms */
};

/* The tally for blocks of `size` from the call stack `frames`, made if need be; NULL if
 * there is no memory. */
struct tally *origins_tally(struct origins *origins, const uintptr_t *frames, size_t depth, size_t size);
/* The tally of `origin`, or of one that stands for it, for blocks of `size`, made if need be; NULL if there
 * is no memory. */
struct tally *origins_tally_of(struct origins *origins, struct origin *origin, size_t size);
/* Sets all figures to 0; origins and tallies stay. */
void origins_forget(struct origins *origins);
/* Gives back the memory of all origins and tallies. Without the lock, if they are nobody else's any more. */
void origins_give(struct origins *origins);

#endif
