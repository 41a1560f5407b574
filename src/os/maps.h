/* What is mapped where, as /proc/self/maps says.
 *
 * Promises no allocation from a heap; where /proc cannot be read, or there is no memory, it is as if nothing
 * were mapped. Relies on reader, pages and sink. Changes errno.
 */
#ifndef HAKMEM_OS_MAPS_H
#define HAKMEM_OS_MAPS_H

#include "os/sink.h"

/* Writes all lines to `sink`, as they are. */
void maps_copy(struct sink *sink);

/* One line of /proc/self/maps. */
struct mapping {
    uintptr_t start, end;
    uintptr_t offset; /* where in the file `start` is */
    /* Where the file's first byte is or would be mapped: the file's symbols count from there. */
    uintptr_t load_address;
    bool executable;
    const char *line; /* the whole line without its end */
    const char *path; /* in `line`; "" if the mapping is no file's */
};
/* Calls `visit` with each mapping, by address, until it returns false. */
void maps_visit(bool (*visit)(const struct mapping *mapping, void *context), void *context);

#endif
