/* Keeping all free memory, for programs that must have no page fault.
 *
 * Promises to do nothing where the user has chosen how much may stay. Any thread, not in signal
 * handlers. A child of fork inherits KEEP_ASKED, and not KEEP_LOCKED, because its memory is not locked.
 * Relies on the options.
 */
#ifndef HAKMEM_API_KEEP_H
#define HAKMEM_API_KEEP_H

#include <stdbool.h>

enum keep_reason {
    KEEP_ASKED = 1,  /* mallopt(M_TRIM_THRESHOLD, -1) */
    KEEP_LOCKED = 2, /* mlockall(MCL_FUTURE) */
};

/* Notes whether a reason to keep free memory `holds`; it is kept as long as one does. */
void keep_free_memory(enum keep_reason reason, bool holds);

#endif
