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
    size_t grace; /* what is added to the share, before limits; grows with mistakes */
    /* Slabs purged in this period, and not taken since, for which there was grace that was withheld. */
    size_t withheld;
    size_t taken_again; /* of those, less those that have lain idle since */
    uint32_t period;    /* ticks so far */
    bool scarce;        /* the process is near a limit of its container */
};

/* Which slabs of one superslab were purged over the bound. */
struct missed {
    uint32_t slabs;  /* purged over the bound, and not taken since */
    uint32_t period; /* in which they were; they are missed until the end of the next, or until others of the
                      * superslab are purged in that */
};

/* Whether the program is not to wait for a page later: what it frees stays. */
bool retention_keeps_all(void);
/* Free slabs that may be resident without the grace while `used` are in use; fewer where memory is `scarce`.
 */
size_t retention_share(size_t used, bool scarce);
/* The grace in slabs, `most` of them at most; none where memory is scarce. */
size_t retention_grace(const struct retention *retention, size_t most);
/* Share and grace: free slabs that may be resident while `used` are in use, with a grace of `grace_most` at
 * most. */
size_t retention_bound(const struct retention *retention, size_t used, size_t grace_most);
/* How many dirty slabs a purge for the bound leaves: fewer than `bound`, so that the next run given back
 * does not purge again. */
size_t retention_purge_target(size_t bound);

/* Notes that `slabs` of a superslab were purged over the bound; `withheld` says that there was more grace
 * than was allowed. */
void retention_note_purged(struct retention *retention, struct missed *missed, uint32_t slabs, bool withheld);
/* What each slab that was purged by mistake adds to the grace. To learn the grace slab by slab takes longer
 * than to lose what was too much of it; but in a program that uses little, four are much, and a huge block
 * may be that of a program that only grows. */
#define GRACE_FOR_EACH 1
#define GRACE_FOR_EACH_OF_MANY 4
/* `slabs` were taken into use: those of them that were purged in this period or the last were so by mistake,
 * and add `grace_for_each`. retention_note_taken, which is called each time, asks first whether there are
 * any. */
void retention_note_mistakes(struct retention *retention, struct missed *missed, uint32_t slabs,
                             unsigned grace_for_each);
static inline void retention_note_taken(struct retention *retention, struct missed *missed, uint32_t slabs,
                                        unsigned grace_for_each) {
    if (UNLIKELY((missed->slabs & slabs) != 0)) {
        retention_note_mistakes(retention, missed, slabs, grace_for_each);
    }
}
/* Slabs beyond the allowed grace that the program has taken again more than once. */
size_t retention_breath(const struct retention *retention);
/* Forgets what retention_breath says, as what is dirty is about to be purged wholly. */
void retention_forget_breath(struct retention *retention);
/* A period has gone by in which `idle` dirty slabs were not needed. What was learned while memory was scarce
 * is forgotten. */
void retention_tick(struct retention *retention, size_t idle);

#endif
