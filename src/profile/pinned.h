/* The fragmentation profile: whose blocks keep free memory from being returned.
 *
 * A slab goes back only when its last block is freed. So each live block of a slab answers for an equal part
 * of the slab's freed blocks; a sample stands for as many blocks as its weight says, and its shadow lies
 * where it would have lain. Summed over all samples that estimates the bytes in freed blocks of all slabs;
 * blocks that were never handed out do not count, since nothing was ever written there.
 *
 * Promises JSON (docs/profiling.md), the call stack that pins most first. The profile's lock is held while
 * the samples are gone through, not while they are written. Relies on slab headers.
 */
#ifndef HAKMEM_PROFILE_PINNED_H
#define HAKMEM_PROFILE_PINNED_H

/* Writes the profile to `fd`: 0, or -1 with errno, which is what writing says, or ENOMEM. */
int pinned_write(int fd);

#endif
