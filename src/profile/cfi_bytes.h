/* Reading unwind tables byte by byte.
 *
 * Promises not to read beyond the end: what would lie there reads as 0 and sets `bad`, which stays set.
 * Relies on nothing.
 */
#ifndef HAKMEM_PROFILE_CFI_BYTES_H
#define HAKMEM_PROFILE_CFI_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    const unsigned char *at, *end;
    bool bad; /* something beyond the end was to be read */
};

static inline size_t bytes_left(const struct bytes *b) {
    return (size_t)(b->end - b->at);
}

/* An unsigned number of up to 8 bytes, little-endian. */
static inline uint64_t bytes_unsigned(struct bytes *b, unsigned size) {
    if (bytes_left(b) < size) {
        b->bad = true;
        b->at = b->end;
        return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) {
        value |= (uint64_t)b->at[i] << (8 * i);
    }
    b->at += size;
    return value;
}

static inline int64_t bytes_signed(struct bytes *b, unsigned size) {
    if (size == 0) {
        return 0;
    }
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    return (int64_t)((bytes_unsigned(b, size) ^ sign) - sign);
}

/* A number in groups of seven bits, the lowest first (LEB128); `*bits` gets how many bits were read and
 * `*last` the last byte. */
static inline uint64_t bytes_leb(struct bytes *b, unsigned *bits, uint64_t *last) {
    uint64_t value = 0;
    *bits = 0;
    do {
        *last = bytes_unsigned(b, 1);
        value |= *bits < 64 ? (*last & 0x7F) << *bits : 0;
        *bits += 7;
    } while ((*last & 0x80) != 0);
    return value;
}

static inline uint64_t bytes_uleb(struct bytes *b) {
    unsigned bits;
    uint64_t last;
    return bytes_leb(b, &bits, &last);
}

static inline int64_t bytes_sleb(struct bytes *b) {
    unsigned bits;
    uint64_t last;
    uint64_t value = bytes_leb(b, &bits, &last);
    if (bits < 64 && (last & 0x40) != 0) {
        value |= ~(uint64_t)0 << bits;
    }
    return (int64_t)value;
}

/* Steps over the next `length` bytes, and returns them to be read on their own. */
static inline struct bytes bytes_part(struct bytes *b, uint64_t length) {
    if (length > bytes_left(b)) {
        b->bad = true;
        length = bytes_left(b);
    }
    struct bytes part = {.at = b->at, .end = b->at + length, .bad = b->bad};
    b->at += length;
    return part;
}

#endif
