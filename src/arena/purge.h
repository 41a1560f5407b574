/* Giving what is free back to the OS: slabs by the batch, and pages of runs in use.
 *
 * Promises that no lock of the arena's is held during a system call; that what the OS refuses is dirty again,
 * and is left alone for a while once it has refused much in a row; that what leaves the counts leaves the
 * machine (huge pages are split: dense.h). Relies on regions, dense, retention and os/purge.
 */
#ifndef HAKMEM_ARENA_PURGE_H
#define HAKMEM_ARENA_PURGE_H

#include "arena/slab_header.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Purges until no more than `target` dirty slabs are left beside those of arena_refused_slabs, highest
 * addresses first, letting go of the lock for the system calls. Returns the slabs purged; goes on below what
 * the OS refuses, but not for ever. Arena lock held. */
size_t arena_purge_to(size_t target);
/* As arena_purge_to, because of the bound: notes the slabs as missed (`withheld`: see retention_note_purged),
 * and purges parts of huge pages last, because to split one takes as long as to clear it. */
void arena_purge_over_bound(size_t target, bool withheld);
/* Purges everything that is free and resident. No lock held. */
void arena_purge_all(void);

/* How many dirty slabs it is no use to try to purge just now: the OS has refused as many of late. Arena lock
 * held. */
size_t arena_refused_slabs(void);
/* Has all dirty slabs tried by the next purge: what made the OS refuse some may be gone. Arena lock held. */
void arena_forget_refused(void);

/* Gives back `count` (up to ARENA_HOLES_MOST) ranges of pages within runs that are in use, with no lock of
 * the arena's held; `done` says which of them the OS has taken. */
#define ARENA_HOLES_MOST 64
void arena_purge_holes(const struct iovec *holes, size_t count, bool *done);
/* Gives back the pages of a run that was just taken, so that it is clean. False, and it is as it was, if the
 * OS will not. No lock held. */
bool arena_purge_taken(struct slab *head);

#endif
