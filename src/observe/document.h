/* The statistics as a JSON document: docs/statistics.md has the schema.
 *
 * Promises to make no system call for a census that was not measured. Relies on census and counters.
 */
#ifndef HAKMEM_OBSERVE_DOCUMENT_H
#define HAKMEM_OBSERVE_DOCUMENT_H

#include "observe/census.h"
#include "observe/output.h"

#define DOCUMENT_SCHEMA 1

/* `with_classes` leaves out by far the longest part, for want of room, if it is false. */
void document_write(struct output *out, const struct census *census, bool with_classes);

/* How many heaps are in which state. */
struct heap_counts {
    uint64_t active, abandoned, shared;
};
void count_heap_states(struct heap_counts *out);

/* In milliseconds of os_now_ms: when the library was loaded. */
uint64_t loaded_ms(void);

#endif
