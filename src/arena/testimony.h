/* What blocks tell of others of their size: whether the program fills them.
 *
 * A block that was clean when it was taken, and got no pages ahead of use, tells by what is resident and
 * written of it, while it lives and when it is freed; one that got them tells when it is freed, by what is
 * not zero, and while it lives once the last testimony is used up. Where a part of a block was clean, that
 * part tells. Each testimony serves for a few blocks, and for one more than the one before it; the first and
 * the last of them are looked at before the next, and one that has served for much must be borne out before
 * it serves for more.
 *
 * Promises to look at memory only in ways that cannot fault, whatever the program or the kernel has done to
 * it, and that no lock is held during a look. Relies on os.
 */
#ifndef HAKMEM_ARENA_TESTIMONY_H
#define HAKMEM_ARENA_TESTIMONY_H

#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of a block whose contents are looked at, one in each of as many parts. */
#define TESTIMONY_PAGES OS_PEEK_MOST

/* Whether a block of `bytes` will be filled, as far as is known. Cost: a few system calls where an earlier
 * block is looked at, which happens once for each block. */
bool testimony_expects_filled(size_t bytes);
/* Whether a block of `bytes` (a slab at least), just taken at `start`, will be filled; if so, that uses up a
 * part of the testimony. Cost: as testimony_expects_filled, and a look at the last block served where much
 * was served for. */
bool testimony_says_filled(uintptr_t start, size_t bytes);
/* Has the clean part of a block of `bytes`, `clean_bytes` (a slab at least) at `clean_start`, be the next to
 * tell. */
void testimony_watch(size_t bytes, uintptr_t clean_start, size_t clean_bytes);
/* A block of `bytes` is being freed, of which `clean_bytes` at `start` tell: records whether they were
 * filled; `ahead` says that it got pages ahead of use. Cost: a few system calls. */
void testimony_of_freed(size_t bytes, uintptr_t start, size_t clean_bytes, bool ahead);
/* What begins at `start` tells nothing any more, whatever size it had when it was taken: its pages were moved
 * away, or are about to be another block's. */
void testimony_forget(uintptr_t start);
/* Whether `bytes` (a slab at least) at `start` are filled, as far as some samples tell; `ahead` says that
 * they got pages ahead of use, so that to be resident says nothing. Cost: a few system calls. */
bool testimony_is_filled(uintptr_t start, size_t bytes, bool ahead);
/* Whether all samples of `bytes` (a slab at least) at `start` were written to. Cost: a few system calls. */
bool testimony_is_written_throughout(uintptr_t start, size_t bytes);

/* Of a block of `bytes` (a slab at least) at `start`, the page of part `i` that is looked at: somewhere in
 * it, because a program's own steps are often powers of two. */
static inline uintptr_t testimony_page(uintptr_t start, size_t bytes, size_t i) {
    size_t part = bytes / OS_PAGE_BYTES / TESTIMONY_PAGES;
    return start + (i * part + (i * 2654435761u >> 8) % part) * OS_PAGE_BYTES;
}
/* Whether a page holds nothing but zeros; one that cannot be read does not. Cost: two system calls. */
bool testimony_is_page_zero(uintptr_t page);

/* Before fork: takes the lock. After it, in both processes: lets go of it. */
void testimony_lock_for_fork(void);
void testimony_unlock_after_fork(bool child);

#endif
