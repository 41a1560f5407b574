/* The statistics as one readable screen.
 *
 * Promises at most some fifty lines of at most 110 columns, whatever the program does. Relies on census,
 * counters and sites.
 */
#ifndef HAKMEM_OBSERVE_SCREEN_H
#define HAKMEM_OBSERVE_SCREEN_H

#include "observe/census.h"
#include "observe/output.h"

/* Writes the figures of a complete census, the counters and the call sites. */
void screen_write(struct output *out, const struct census *census);

#endif
