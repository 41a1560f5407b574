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

#ifdef __cplusplus
}
#endif
#endif
