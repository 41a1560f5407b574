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

#endif
