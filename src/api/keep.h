/* Free memory that is kept, all of it: for programs that must have no page fault.
 *
 * Promises to do nothing where the user has chosen what may stay. Any thread, not in signal handlers. A child
 * of fork inherits what was asked for, and not what holds because memory is locked. Relies on the options.
 */
#ifndef HAKMEM_API_KEEP_H
#define HAKMEM_API_KEEP_H

#include <stdbool.h>

enum keep_reason {
    KEEP_ASKED = 1,  /* mallopt(M_TRIM_THRESHOLD, -1) */
    KEEP_LOCKED = 2, /* mlockall(MCL_FUTURE) */
};

/* It is kept as long as there is a reason. */
void keep_free_memory(enum keep_reason reason, bool holds);

#endif
