/* Formatting and parsing of short texts without allocating.
 *
 * Promises never to write past the buffer it is given, to end what it writes with NUL, and to call nothing
 * that may allocate: usable inside malloc and in a signal handler. What does not fit is left out. Relies on
 * nothing.
 */
#ifndef HAKMEM_BASE_TEXT_H
#define HAKMEM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *buffer;
    size_t capacity; /* of the buffer, with the NUL */
    size_t length;
};

#define TEXT_ON(array) ((struct text){.buffer = (array), .capacity = sizeof(array), .length = 0})

void text_char(struct text *t, char c);
void text_string(struct text *t, const char *s);
void text_decimal(struct text *t, uint64_t value);
void text_hex(struct text *t, uint64_t value); /* with 0x in front */

/* Right-aligned in `width` columns. */
void text_decimal_column(struct text *t, uint64_t value, size_t width);
/* "12.3 MiB", right-aligned in `width` columns. */
void text_bytes_column(struct text *t, uint64_t bytes, size_t width);

/* Parses the `length` bytes of `s` as a number with an optional K, M, G or T suffix (powers of 1024, any
 * case, an "iB" or "B" may follow). False if they are none, or it does not fit. */
bool parse_size(const char *s, size_t length, uint64_t *out);
/* Parses 1/0, true/false, yes/no or on/off, in any case. False if it is none of these. */
bool parse_bool(const char *s, size_t length, bool *out);
/* Whether the `length` bytes of `s` are `other`, whatever the case of their letters. */
bool text_equal(const char *s, size_t length, const char *other);

#endif
