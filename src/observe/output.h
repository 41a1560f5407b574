/* Text of any length, into a buffer or into a file.
 *
 * Promises never to write past the buffer, to end it with NUL, and to count what there was no room for.
 * Relies on base/text and os/sink.
 */
#ifndef HAKMEM_OBSERVE_OUTPUT_H
#define HAKMEM_OBSERVE_OUTPUT_H

#include "base/text.h"
#include "os/sink.h"

struct output {
    struct text text;
    size_t total;      /* bytes of the whole text, room or not */
    struct sink *sink; /* instead of the buffer, if there is one */
};

/* Text into `buffer`; with a capacity of 0 it is only counted. */
struct output output_to_buffer(char *buffer, size_t capacity);
/* Text through `sink`, which the caller begins and ends. */
struct output output_to_sink(struct sink *sink);

void out_char(struct output *out, char c);
void out_string(struct output *out, const char *s);
void out_decimal(struct output *out, uint64_t value);
void out_hex(struct output *out, uint64_t value);
/* Text left-aligned, numbers right-aligned, in `width` columns. */
void out_left(struct output *out, const char *s, size_t width);
void out_decimal_column(struct output *out, uint64_t value, size_t width);
void out_bytes_column(struct output *out, uint64_t bytes, size_t width);
/* What `part` is of `whole`, in percent with one decimal place; 0 if `whole` is 0. */
void out_percent_column(struct output *out, uint64_t part, uint64_t whole, size_t width);

#endif
