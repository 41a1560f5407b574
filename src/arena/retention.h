/* How much free memory may stay resident.
 *
 * Promises a bound that follows from the memory in use and the options alone, but for a grace: a program
 * that keeps coming back for what was purged may keep that much more and up to four times of it, up to
 * RETAIN_GRACE and to what the caller says, and loses it as soon as it does not need it. Pure bookkeeping, in
 * slabs; the arena's lock protects it. Relies on the options.
 */
#ifndef HAKMEM_ARENA_RETENTION_H
#define HAKMEM_ARENA_RETENTION_H

#include "base/bits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retention {
    size_t grace;    /* added to the bound */
    size_t breath;   /* purged since the last tick where there was grace, but no more of it allowed */
    size_t vain;     /* slabs of the breath that were taken again, less those that have lain idle since */
    uint32_t period; /* ticks so far */
    bool scarce;     /* the process is near a limit of its container */
};

/* Of the slabs of one superslab. */
struct missed {
    uint32_t slabs;  /* were purged over the bound, and not taken since */
    uint32_t period; /* in that one; in a later one they are not missed any more */
};

/* Free slabs that may be resident while `used` are in use, but for the grace. */
size_t retention_share(size_t used, bool scarce);
/* The grace, where it may be no more than so many. */
size_t retention_grace(const struct retention *retention, size_t most);
/* Both: free slabs that may be resident while `used` are in use. */
size_t retention_bound(const struct retention *retention, size_t used, size_t grace_most);
/* Where purging stops, below the bound, so that the next run given back does not purge again. */
size_t retention_purge_target(size_t bound);

/* Over the bound; `breath` says whether there was more grace than was allowed. */
void retention_note_purged(struct retention *retention, struct missed *missed, uint32_t slabs, bool breath);
/* What one slab that was purged in vain adds to the grace. To purge first as much as is to stay takes longer
 * than to lose what was too much; but in a program that uses little it is much, and a huge block may be that
 * of one that only grows. */
#define GRACE_FOR_EACH 1
#define GRACE_FOR_EACH_OF_MANY 4
/* Slabs were taken into use: those that were purged just before were so by mistake. */
void retention_note_mistakes(struct retention *retention, struct missed *missed, uint32_t slabs,
                             unsigned grace_for_each);
static inline void retention_note_taken(struct retention *retention, struct missed *missed, uint32_t slabs,
                                        unsigned grace_for_each) {
    if (UNLIKELY((missed->slabs & slabs) != 0)) {
        retention_note_mistakes(retention, missed, slabs, grace_for_each);
    }
}
/* What the program has shown more than once that it takes again, beyond what it was allowed. */
size_t retention_breath(const struct retention *retention);
void retention_forget_breath(struct retention *retention);
/* A period has gone by in which `idle` dirty slabs were not needed. */
void retention_tick(struct retention *retention, size_t idle);

#endif
