/* What the program asks of its address space as a whole: that it be small, or that it be resident.
 *
 * Promises to wait a second at most for the arena's lock: a child that was made behind libc's back would wait
 * for ever. What was not done for that is made good when a region is not to be had, or memory has been used
 * once. Any thread may call it. Relies on the arena's lock.
 */
#ifndef HAKMEM_ARENA_ADDRESS_SPACE_H
#define HAKMEM_ARENA_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives up address space that serves speed alone, where that is much of `limit_bytes`: so much the process
 * may have from now on, or lock. */
void arena_spare_address_space(size_t limit_bytes);
/* The program has locked its memory, so that what is made usable is resident at once, or does so no more. */
void arena_note_locked(bool locked);

#ifdef __cplusplus
}
#endif
#endif
