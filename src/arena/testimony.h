/* What blocks tell of others of their size: whether the program fills them.
 *
 * A block that was clean when it was taken, and got no pages ahead of use, tells by what is resident and
 * written of it, while it lives and when it is freed; one that got them tells when it is freed, by what is
 * not zero, and while it lives once the last testimony is used up. Each testimony serves for a few blocks,
 * and for twice as many as the one before it.
 *
 * Promises to look at memory only in ways that cannot fault, whatever the program or the kernel has done to
 * it, and that no lock is held during a look. Relies on os.
 */
#ifndef HAKMEM_ARENA_TESTIMONY_H
#define HAKMEM_ARENA_TESTIMONY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether it is worth asking for a block of `bytes` not taken yet: a hint. */
bool testimony_expects_filled(size_t bytes);
/* Whether the block of `bytes` (a slab at least) at `start`, just taken, will be filled as far as is known.
 * If not known, and it is clean, it is the next to tell. Cost: a few system calls where an earlier block is
 * looked at. */
bool testimony_says_filled(uintptr_t start, size_t bytes, bool clean);
/* The last that a clean block can tell. */
void testimony_of_freed(uintptr_t start, size_t bytes, bool ahead);
/* Whether a block is filled; `ahead` says that it got pages ahead of use. */
bool testimony_is_filled(uintptr_t start, size_t bytes, bool ahead);

/* Around fork. */
void testimony_lock_for_fork(void);
void testimony_unlock_after_fork(bool child);

#endif
