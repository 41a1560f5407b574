/* What the program asks of its address space as a whole: that it be small, or that it be resident.
 *
 * Promises to wait a second at most for the arena's lock: a child that was made behind libc's back would wait
 * for ever. A call that does not get it changes nothing: address space is given up later, when a region is
 * not to be had, and free memory that is resident without being counted goes once it has been used. Any
 * thread may call it. Relies on the arena's lock.
 */
#ifndef HAKMEM_ARENA_ADDRESS_SPACE_H
#define HAKMEM_ARENA_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region;

#ifdef __cplusplus
extern "C" {
#endif

/* Gives up the flat page map, which serves speed alone, where it is much of `limit_bytes`: what the process
 * may have of address space, or lock, from now on. And what regions have reserved for later, where that is
 * much of RLIMIT_AS. */
void arena_spare_address_space(size_t limit_bytes);
/* The program has locked the memory that it has (`now`), or will have (`later`), or both: what of it is made
 * usable is resident at once, and counts as dirty. Without `later`, a lock on what it will have has ended. */
void arena_note_locked(bool now, bool later);
/* The program has unlocked all memory: none is locked from now on, now or later. */
void arena_note_unlocked(void);

/* The arena's own, from here on: its lock is held, but for arena_lock_in_time. */

/* Makes superslabs below `count` of the region usable, as region_commit does; where the program has locked
 * memory no more than these, and they count as dirty. False if the OS refuses. */
bool arena_commit(struct region *region, uint32_t count);
/* Counts the free slabs of the region's usable superslabs from `first` on as dirty: they are resident. */
void arena_note_resident(struct region *region, uint32_t first);
/* Gives up the flat page map, and what regions have reserved for later, if the limit of address space, which
 * another process may have changed, is too low for them by now. True if that was done: there is more address
 * space then. */
bool arena_spared(void);

/* Takes the lock, which is not held; false if that takes more than a second. Another thread that has it lets
 * go of it within microseconds, but never does what a signal has interrupted, or what was there before a
 * child that was made behind libc's back. */
bool arena_lock_in_time(void);

#ifdef __cplusplus
}
#endif
#endif
