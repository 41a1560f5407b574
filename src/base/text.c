#include "base/text.h"

#include "base/bits.h"

#include <string.h>

void text_char(struct text *t, char c) {
    if (t->length + 1 < t->capacity) {
        t->buffer[t->length++] = c;
        t->buffer[t->length] = '\0';
    }
}

void text_string(struct text *t, const char *s) {
    while (*s != '\0') {
        text_char(t, *s++);
    }
}

static void text_number(struct text *t, uint64_t value, unsigned base) {
    char digits[24];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (n > 0) {
        text_char(t, digits[--n]);
    }
}

void text_decimal(struct text *t, uint64_t value) {
    text_number(t, value, 10);
}

COLD void text_hex(struct text *t, uint64_t value) {
    text_string(t, "0x");
    text_number(t, value, 16);
}

/* Right-aligned in `width` columns. */
COLD static void column(struct text *t, const char *s, size_t width) {
    for (size_t n = strlen(s); n < width; n++) {
        text_char(t, ' ');
    }
    text_string(t, s);
}

COLD void text_decimal_column(struct text *t, uint64_t value, size_t width) {
    char digits[24];
    struct text number = TEXT_ON(digits);
    text_decimal(&number, value);
    column(t, digits, width);
}

COLD void text_bytes_column(struct text *t, uint64_t bytes, size_t width) {
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    unsigned unit = 0;
    uint64_t tenths = bytes * 10;
    if (bytes > UINT64_MAX / 16) {
        tenths = bytes;
        unit = 1;
        tenths = tenths / 1024 * 10;
    }
    while (tenths >= 10240 && unit < 5) {
        tenths = (tenths + 512) / 1024;
        unit++;
    }
    char buffer[32];
    struct text number = TEXT_ON(buffer);
    text_decimal(&number, tenths / 10);
    if (unit > 0) {
        text_char(&number, '.');
        text_decimal(&number, tenths % 10);
    }
    text_char(&number, ' ');
    text_string(&number, units[unit]);
    column(t, buffer, width);
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool text_equal(const char *s, size_t length, const char *other) {
    for (size_t i = 0; i < length; i++) {
        if (other[i] == '\0' || lower(s[i]) != lower(other[i])) {
            return false;
        }
    }
    return other[length] == '\0';
}

bool parse_size(const char *s, size_t length, uint64_t *out) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < length && s[i] >= '0' && s[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (i == 0) {
        return false;
    }
    static const char suffixes[] = "kmgt";
    const char *suffix = i < length ? strchr(suffixes, lower(s[i])) : NULL;
    if (suffix != NULL && *suffix != '\0') {
        unsigned shift = 10 * ((unsigned)(suffix - suffixes) + 1);
        if (value > UINT64_MAX >> shift) {
            return false;
        }
        value <<= shift;
        i++;
        if (text_equal(s + i, length - i, "ib")) {
            i += 2;
        }
    }
    if (i < length && lower(s[i]) == 'b') {
        i++;
    }
    if (i != length) {
        return false;
    }
    *out = value;
    return true;
}

bool parse_bool(const char *s, size_t length, bool *out) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        if (text_equal(s, length, yes[i])) {
            *out = true;
            return true;
        }
        if (text_equal(s, length, no[i])) {
            *out = false;
            return true;
        }
    }
    return false;
}
