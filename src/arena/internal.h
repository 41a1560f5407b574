/* The arena's state, shared by the files of this folder.
 *
 * Promises nothing to other folders. Everything in it is protected by its lock.
 */
#ifndef HAKMEM_ARENA_INTERNAL_H
#define HAKMEM_ARENA_INTERNAL_H

#include "arena/region.h"
#include "arena/retention.h"
#include "os/backoff.h"
#include "os/lock.h"

/* Where a purge was given up that had met much that was refused: the next one goes on there, or what lies
 * below would never be given back. */
struct left {
    struct region *region; /* NULL: nowhere */
    size_t superslab;      /* those before it are still to be tried */
    size_t slabs;          /* refused before */
};

/* In use in a program that is not small: 16 MiB. */
#define ARENA_LARGE_SLABS 256

struct arena {
    struct lock lock;
    /* Threads that are purging, or have a superslab filled: what they have taken out of circulation is
     * neither free nor dirty. Changed under the lock; atomic for os_wait. relaxed: the lock orders it */
    _Atomic uint32_t purging;
    uint32_t purge_waiters;
    struct region *oldest, *newest; /* the regions, doubly linked */
    size_t used_slabs;
    _Atomic size_t used_seen;  /* the same; relaxed: a hint for those without the lock */
    _Atomic size_t dirty_seen; /* dirty_slabs, likewise, or as they were a moment ago */
    _Atomic bool is_scarce;    /* retention.scarce, likewise */
    _Atomic size_t grace_seen; /* the grace when the bound was last worked out, likewise */
    size_t used_most;          /* the most in use since the last decay_tick */
    size_t used_most_before;   /* and in the period before that */
    size_t used_unrelieved;    /* and since decay.c's last relief was done */
    size_t dirty_slabs;        /* free and perhaps resident */
    size_t ahead_slabs;        /* those of them that are so only because of dense_fill */
    size_t hidden_slabs;       /* behind huge blocks, resident and not among these: behind.h */
    size_t filling_slabs;      /* that will be dirty when the fills under way are over */
    size_t dirty_low;          /* the fewest since the last decay_tick */
    size_t refused_slabs;      /* dirty ones that the OS would not take back, while this holds */
    struct backoff refused;
    bool memory_locked; /* of some regions (`locked`) what is committed is resident, */
    bool locked_in_new; /* and so it is in those that are made from now on */
    struct left left;
    struct retention retention;
    uint64_t purges, purged_bytes, decayed_bytes, hole_bytes;
    uint64_t superslabs_opened, superslabs_dense; /* taken into use wholly free; as one huge page */
    uint64_t regions_created;
};
extern INTERNAL struct arena arena;

struct region *arena_add_region(size_t superslabs, bool only_huge);
bool arena_end_idle_regions(void);
bool arena_region_idle(const struct region *region);
void arena_end_region(struct region *region);

/* As region_commit; in a program that has locked its memory no more than is needed, and it counts as dirty.
 */
bool arena_commit(struct region *region, uint32_t count);
/* What is free in its superslabs from `first` on is dirty. */
void arena_note_resident(struct region *region, uint32_t first);
/* Whether a limit that another process has set leaves more address space now. */
bool arena_spared(void);

/* Around what takes memory out of circulation while the lock is let go. */
void arena_begin_purging(void);
void arena_end_purging(void);

/* Lets go of the lock until nobody is purging: all that is free is in circulation then. */
void arena_wait_for_purge(void);

/* So much is in use, and dirty: for those who look without the lock. */
void arena_note_size(void);

/* Slabs have left the free ones, `dirty` of them perhaps resident and `clean` not. */
void arena_note_taken(size_t dirty, size_t clean);

/* Free slabs that may be resident: the share of what the program holds, and the grace of what is used. */
size_t arena_bound(void);
size_t arena_bound_without_thread(void);
/* What was in use at most counts from now on; without that thread, the grace stays as it has fallen. */
void arena_begin_period(void);

/* Whether stocks and what is dirty are together more than may be. */
bool arena_has_too_much_stocked(void);

/* Dirty slabs that are no use to try just now: the OS has refused to take as many. */
size_t arena_refused_slabs(void);
/* Whatever refused them may be gone. */
void arena_forget_refused(void);

/* Purges down to `target` dirty slabs beside those, highest addresses first, letting go of the lock for the
 * system calls. Returns the slabs purged; goes on below what the OS refuses, but not for ever. */
size_t arena_purge_to(size_t target);
/* The same of what is over the bound (`breath`: see retention_note_purged), but parts of huge pages last: to
 * split one takes as long as to clear it. */
void arena_purge_over_bound(size_t target, bool breath);

/* Marks slabs free, and the first `resident` of them dirty. */
void arena_free_slabs(struct region *region, size_t first_slab, size_t slabs, size_t resident);

/* Releases the lock, having purged what is over the bound (the lock is let go for the system calls). */
void arena_unlock_within_bound(void);

#endif
