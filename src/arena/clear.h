/* Large blocks that are to read as zero, on memory that was used before: where the program has left blocks of
 * about that size nearly untouched, what is there is given back to the OS instead of overwritten. A table
 * that stays sparse then takes neither the time nor the memory.
 *
 * Promises that a kind of block is given back only where few pages of the last ones that were freed had been
 * used, a twentieth or so: to overwrite a page takes a seventh to a twentieth of the time of a fault,
 * depending on the machine. Relies on testimony, dense, the options and os.
 */
#ifndef HAKMEM_ARENA_CLEAR_H
#define HAKMEM_ARENA_CLEAR_H

#include "arena/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Less is overwritten at once. */
#define CLEARED_LEAST_BYTES ((size_t)512 << 10)

/* Has the large or huge block at `block`, just taken, of which CLEARED_LEAST_BYTES or more are not said to
 * read as zero by `zeros`, do so, by giving them back. False, and what is there is undefined, if that is not
 * done: the caller overwrites them. By the block's thread, no lock held. Cost: a few system calls. */
bool clear_by_purge(uintptr_t block, struct zeros zeros);
/* A block is being freed whose header says that it was `cleared`: whether it was sparse counts for the next.
 * Cost: some twenty system calls, to fifty. */
void clear_note_freed(struct slab *head);

#endif
