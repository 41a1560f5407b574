/* What blocks tell of others of their size: whether the program fills them.
 *
 * A block that was clean when it was taken, and got no pages ahead of use, tells by what is resident and
 * written of it, while it lives and when it is freed; one that got them tells when it is freed, by what is
 * not zero, and while it lives once the last testimony is used up. Where a part of a block was clean, that
 * part tells. Each testimony serves for a few blocks, and for twice as many as the one before it; one that
 * has served for much must be borne out before it serves for more. Of a kind that is not filled few blocks
 * tell.
 *
 * Promises to look at memory only in ways that cannot fault, whatever the program or the kernel has done to
 * it, and that no lock is held during a look. Relies on os.
 */
#ifndef HAKMEM_ARENA_TESTIMONY_H
#define HAKMEM_ARENA_TESTIMONY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a block of `bytes` will be filled, as far as is known. Cost: a few system calls where an earlier
 * block is looked at, which is once for each of them. */
bool testimony_expects_filled(size_t bytes);
/* The same, at the same cost, of a block of `bytes` (a slab at least) that was just taken, at `start`, and
 * uses up a part of the testimony. */
bool testimony_says_filled(uintptr_t start, size_t bytes);
/* Of what is clean of it, a slab at least, `clean_bytes` at `clean_start` are the next to tell. False if they
 * need not: several before were not filled. */
bool testimony_watch(size_t bytes, uintptr_t clean_start, size_t clean_bytes);
/* The last that these can tell of a block of `bytes`. */
void testimony_of_freed(size_t bytes, uintptr_t start, size_t clean_bytes, bool ahead);
/* What begins there tells nothing any more, whatever size it had when it was taken: its pages were moved
 * away, or are about to be another block's. */
void testimony_forget(uintptr_t start);
/* Whether a block is filled; `ahead` says that it got pages ahead of use. */
bool testimony_is_filled(uintptr_t start, size_t bytes, bool ahead);
/* Whether none of the samples of it, a slab at least, says that it is not written to. */
bool testimony_is_written_throughout(uintptr_t start, size_t bytes);

/* Around fork. */
void testimony_lock_for_fork(void);
void testimony_unlock_after_fork(bool child);

#endif
