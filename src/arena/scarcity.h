/* Whether the container is short of memory.
 *
 * Promises an answer that does not swing: what may stay free grows again only where there would be room for
 * all of it, or what is given back near the limit would make room for itself each time. Remembers what was
 * read last, for the figures. Relies on os/cgroup; takes no lock.
 */
#ifndef HAKMEM_ARENA_SCARCITY_H
#define HAKMEM_ARENA_SCARCITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asks the kernel. `was_scarce` is what has held so far, and `regained` are the bytes that may stay in
 * addition once memory is scarce no more. Some tens of system calls, which may take longer than a period
 * where memory is short: so without the arena's lock, and a thread that comes meanwhile does with what has
 * held so far. */
bool scarcity_read(bool was_scarce, size_t regained);

/* Of the container, when it was last asked; both 0 where it has no limit or was never asked. */
struct scarcity_figures {
    uint64_t limit_bytes, room_bytes;
    uint64_t age_ms; /* since then */
};
struct scarcity_figures scarcity_figures(void);

/* In a forked child: whoever was in scarcity_read is not there any more. */
void scarcity_lost_by_fork(void);

#endif
