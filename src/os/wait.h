/* Waiting for a word that another thread changes.
 *
 * Promises to keep errno, to be no cancellation point, and that whoever waits for the library's thread learns
 * where that waits itself (os_thread_note_wait). Relies on the kernel's futex.
 */
#ifndef HAKMEM_OS_WAIT_H
#define HAKMEM_OS_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps until somebody calls os_wake for `word`, unless it is not `value` any more; may return early. */
void os_wait(_Atomic uint32_t *word, uint32_t value);
/* Wakes up to `most` threads that sleep for `word`. */
void os_wake(_Atomic uint32_t *word, unsigned most);

#endif
