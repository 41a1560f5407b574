/* What is mapped where, as /proc/self/maps says.
 *
 * Promises no allocation; where /proc cannot be read, there is nothing. Relies on reader and sink.
 */
#ifndef HAKMEM_OS_MAPS_H
#define HAKMEM_OS_MAPS_H

#include "os/sink.h"

/* All lines as they are. */
void maps_copy(struct sink *sink);

/* One line of the table. */
struct mapping {
    uintptr_t start, end;
    uintptr_t
        load_address; /* where the file's first byte is or would be mapped: its symbols count from there */
    bool executable;
    char line[512];   /* all of it, without its end, cut off where it is longer */
    const char *path; /* in `line`; "" if it is no file's */
};
/* Calls `visit` for each until it returns false. */
void maps_visit(bool (*visit)(const struct mapping *mapping, void *context), void *context);

#endif
