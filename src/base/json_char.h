/* What stands for a byte in a string of JSON.
 *
 * Promises printable ASCII. Names that programs and folders are given need not be UTF-8: a byte that is not
 * ASCII is written as the character with its number. Relies on nothing.
 */
#ifndef HAKMEM_BASE_JSON_CHAR_H
#define HAKMEM_BASE_JSON_CHAR_H

struct json_char {
    char text[7]; /* with a NUL */
};

static inline struct json_char json_char(char c) {
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)c;
    if (c == '"' || c == '\\') {
        return (struct json_char){{'\\', c}};
    }
    if (byte < ' ' || byte >= 0x7F) {
        return (struct json_char){{'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]}};
    }
    return (struct json_char){{c}};
}

#endif
