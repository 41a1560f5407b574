/* Formatting and parsing of short texts without allocating.
 *
 * Promises never to write past the buffer it is given, to end it with NUL, and to call nothing that
 * may allocate: usable inside malloc and in a signal handler. Relies on nothing.
 */
#ifndef HAKMEM_BASE_TEXT_H
#define HAKMEM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *buffer;
    size_t capacity; /* with the NUL */
    size_t length;
};

#define TEXT_ON(array) ((struct text){.buffer = (array), .capacity = sizeof(array), .length = 0})

void text_char(struct text *t, char c);
void text_string(struct text *t, const char *s);
void text_decimal(struct text *t, uint64_t value);
void text_hex(struct text *t, uint64_t value); /* with 0x */

/* Right-aligned in `width` columns. */
void text_column(struct text *t, const char *s, size_t width);
void text_decimal_column(struct text *t, uint64_t value, size_t width);
/* "12.3 MiB", right-aligned in `width` columns. */
void text_bytes_column(struct text *t, uint64_t bytes, size_t width);

/* A number with an optional K, M, G or T suffix (powers of 1024, any case, an "iB" or "B" may
 * follow). False if it is none or does not fit. */
bool parse_size(const char *s, size_t length, uint64_t *out);
/* 1/0, true/false, yes/no, on/off. */
bool parse_bool(const char *s, size_t length, bool *out);
bool text_equal(const char *s, size_t length, const char *other);

#endif
