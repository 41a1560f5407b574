#include "arena/retention.h"

#include "arena/layout.h"
#include "base/bits.h"
#include "options/options.h"

/* Near a limit of the container, the share is this part of what it is elsewhere. */
#define SCARCE_PART 8

/* What is purged beyond what is over the bound: enough to be worth a system call, and little enough to keep
 * what may be wanted. */
#define PURGED_PART 16
#define PURGED_LEAST 8

/* What is taken again in the period after that in which it was purged was purged by mistake, too: a program
 * that breathes more slowly than in one period, but in less than DECAY_MS, wants it each time. */
#define MISTAKE_PERIODS 1

/* For retention_breath: slabs count that were taken again so many times over, and with each period this part
 * of them is forgotten. */
#define TIMES_IN_VAIN 2
#define FORGOTTEN_PART 8
/* `taken_again` grows no further, because more could not be forgotten soon: 64 MiB. */
#define TAKEN_AGAIN_MOST_SLABS ((size_t)1024)

/* With so much that may stay, all does: see api/keep.c. */
#define KEEPS_ALL_BYTES ((uint64_t)1 << 40)

COLD bool retention_keeps_all(void) {
    return option_number(OPTION_RETAIN_MIN) >= KEEPS_ALL_BYTES;
}

size_t retention_share(size_t used, bool scarce) {
    size_t least = option_number(OPTION_RETAIN_MIN) >> SLAB_SHIFT;
    size_t share = max_size(least, used * option_number(OPTION_RETAIN_PERCENT) / 100);
    return UNLIKELY(scarce) ? share / SCARCE_PART : share;
}

static size_t most_grace(void) {
    return option_number(OPTION_RETAIN_GRACE) >> SLAB_SHIFT;
}

size_t retention_grace(const struct retention *r, size_t most) {
    size_t grace = min_size(r->grace, most_grace()); /* the option may have been lowered since */
    return r->scarce ? 0 : min_size(grace, most);
}

size_t retention_bound(const struct retention *r, size_t used, size_t grace_most) {
    return retention_share(used, r->scarce) + retention_grace(r, grace_most);
}

size_t retention_purge_target(size_t bound) {
    return bound - max_size(bound / PURGED_PART, min_size(bound / 4, PURGED_LEAST));
}

COLD void retention_note_purged(struct retention *r, struct missed *missed, uint32_t slabs, bool withheld) {
    missed->slabs = slabs | (missed->period == r->period ? missed->slabs : 0);
    missed->period = r->period;
    r->withheld += withheld ? bit_count(slabs) : 0;
}

COLD void retention_note_mistakes(struct retention *r, struct missed *missed, uint32_t slabs,
                                  unsigned grace_for_each) {
    uint32_t ago = r->period - missed->period;
    size_t mistakes = ago <= MISTAKE_PERIODS ? bit_count(missed->slabs & slabs) : 0;
    size_t again = ago == 0 ? min_size(mistakes, r->withheld) : 0;
    missed->slabs &= ~slabs;
    r->withheld -= again;
    r->taken_again = min_size(r->taken_again + again, TAKEN_AGAIN_MOST_SLABS);
    r->grace = min_size(r->grace + grace_for_each * mistakes, most_grace());
}

size_t retention_breath(const struct retention *r) {
    return r->taken_again / TIMES_IN_VAIN;
}

COLD void retention_forget_breath(struct retention *r) {
    r->withheld = r->taken_again = 0;
}

COLD void retention_tick(struct retention *r, size_t idle) {
    r->period++;
    r->withheld = 0;
    /* While memory is scarce whatever is taken again was purged, which tells nothing of other times. */
    r->grace -= r->scarce ? r->grace : min_size(r->grace, idle);
    r->taken_again -= min_size(r->taken_again, r->taken_again / FORGOTTEN_PART + TIMES_IN_VAIN * idle);
}
