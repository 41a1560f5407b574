/* The statistics as a JSON document: docs/statistics.md has the schema.
 *
 * Promises to make no system call for a census that was not measured. Relies on census and counters.
 */
#ifndef HAKMEM_OBSERVE_DOCUMENT_H
#define HAKMEM_OBSERVE_DOCUMENT_H

#include "observe/census.h"
#include "observe/output.h"

#define DOCUMENT_SCHEMA 1

/* Writes the figures of a complete census, and the counters. Without `with_classes` the list of classes is
 * empty: it is by far the longest part. */
void document_write(struct output *out, const struct census *census, bool with_classes);

/* How many heaps are in which state; the heap of samples is in none. */
struct heap_counts {
    uint64_t active, abandoned, shared;
};
void count_heap_states(struct heap_counts *out);

/* When the library was loaded, which is when this was first called, in milliseconds of os_now_ms. */
uint64_t loaded_ms(void);

#endif
