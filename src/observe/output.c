#include "observe/output.h"

#include "base/bits.h"

#include <string.h>

struct output output_to_buffer(char *buffer, size_t capacity) {
    if (capacity > 0) {
        buffer[0] = '\0';
    }
    return (struct output){.text = {buffer, capacity, 0}};
}

struct output output_to_sink(struct sink *sink) {
    return (struct output){.sink = sink};
}

/* Adds the `length` bytes at `s`, which a NUL follows. */
static inline void add(struct output *out, const char *s, size_t length) {
    out->total += length;
    if (out->sink != NULL) {
        sink_string(out->sink, s);
        return;
    }
    struct text *text = &out->text;
    if (text->capacity == 0) {
        return;
    }
    /* Copied at once and not byte by byte: a thread of the program waits while the live page is written. */
    size_t fitting = min_size(length, text->capacity - 1 - text->length);
    memcpy(text->buffer + text->length, s, fitting);
    text->length += fitting;
    text->buffer[text->length] = '\0';
}

void out_char(struct output *out, char c) {
    char s[2] = {c, '\0'};
    add(out, s, 1);
}

void out_string(struct output *out, const char *s) {
    add(out, s, strlen(s));
}

void out_decimal(struct output *out, uint64_t value) {
    char digits[24];
    char *at = digits + sizeof digits;
    *--at = '\0';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    add(out, at, (size_t)(digits + sizeof digits - 1 - at));
}

void out_hex(struct output *out, uint64_t value) {
    char digits[24];
    struct text number = TEXT_ON(digits);
    text_hex(&number, value);
    out_string(out, digits);
}

COLD void out_left(struct output *out, const char *s, size_t width) {
    out_string(out, s);
    for (size_t n = strlen(s); n < width; n++) {
        out_char(out, ' ');
    }
}

COLD void out_decimal_column(struct output *out, uint64_t value, size_t width) {
    char digits[64];
    struct text number = TEXT_ON(digits);
    text_decimal_column(&number, value, width);
    out_string(out, digits);
}

COLD void out_bytes_column(struct output *out, uint64_t bytes, size_t width) {
    char digits[64];
    struct text number = TEXT_ON(digits);
    text_bytes_column(&number, bytes, width);
    out_string(out, digits);
}

COLD void out_percent_column(struct output *out, uint64_t part, uint64_t whole, size_t width) {
    char digits[64];
    struct text number = TEXT_ON(digits);
    /* Scaled down first where the product would not fit. */
    while (whole > UINT64_MAX / 2000 || part > UINT64_MAX / 2000) {
        part /= 2;
        whole /= 2;
    }
    uint64_t tenths = whole == 0 ? 0 : (part * 1000 + whole / 2) / whole;
    text_decimal(&number, tenths / 10);
    text_char(&number, '.');
    text_decimal(&number, tenths % 10);
    text_string(&number, " %");
    for (size_t n = strlen(digits); n < width; n++) {
        out_char(out, ' ');
    }
    out_string(out, digits);
}
