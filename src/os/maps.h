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

/* What is mapped at one address, as far as it tells whose that is. */
struct maps_area {
    uintptr_t start, end;
    bool writable;
    bool anonymous;  /* neither a file nor a named area */
    bool break_heap; /* the area grown by brk */
    bool stack;
};
enum os_answer { OS_NO, OS_YES, OS_UNKNOWN };
/* Stores in `out` what is mapped at `address`: OS_NO if nothing is, OS_UNKNOWN where /proc cannot be read.
 * Takes no memory, but the time to read all that stands before. */
enum os_answer maps_find(uintptr_t address, struct maps_area *out);

#endif
