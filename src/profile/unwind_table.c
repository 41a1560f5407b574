#include "profile/unwind_table.h"

#include "os/stack_probe.h"
#include "profile/cfi.h"

#include <string.h>

/* How a pointer is written (Linux Standard Base, 10.5.1): its form in the low bits, what it is relative to
 * above them. */
enum {
    FORM_ABSOLUTE = 0x00,
    FORM_U2 = 0x02,
    FORM_U4 = 0x03,
    FORM_U8 = 0x04,
    FORM_S2 = 0x0A,
    FORM_S4 = 0x0B,
    FORM_S8 = 0x0C,
    FORM_BITS = 0x0F,
    FORM_SIGN = 0x08,
    RELATIVE_TO_PLACE = 0x10,
    RELATIVE_TO_HEADER = 0x30,
    RELATIVE_BITS = 0x70,
    OMITTED = 0xFF,
};

/* What the module's file has from `address` on; nothing, and `bad`, where it is not loaded, or on a page that
 * may not be read: some linkers put the tables beside the header, which the program may have hidden. */
static struct bytes bytes_from(const struct module *m, uintptr_t address) {
    uintptr_t end = os_readable(address) ? module_part_end(m, address) : 0;
    const unsigned char *at = (const unsigned char *)address;
    return (struct bytes){.at = at, .end = end == 0 ? at : (const unsigned char *)end, .bad = end == 0};
}

/* The size of a pointer in bytes; 0 if its form is not known. */
static unsigned form_bytes(unsigned encoding) {
    switch (encoding & FORM_BITS) {
    case FORM_U2:
    case FORM_S2:
        return 2;
    case FORM_U4:
    case FORM_S4:
        return 4;
    case FORM_ABSOLUTE:
    case FORM_U8:
    case FORM_S8:
        return 8;
    default:
        return 0;
    }
}

static bool relative_to_place(unsigned encoding) {
    return (encoding & RELATIVE_BITS) == RELATIVE_TO_PLACE;
}

static uintptr_t read_pointer(struct bytes *b, unsigned encoding) {
    uintptr_t place = (uintptr_t)b->at;
    unsigned size = form_bytes(encoding);
    b->bad = b->bad || size == 0 || (encoding & ~(unsigned)(FORM_BITS | RELATIVE_TO_PLACE)) != 0;
    if (b->bad) {
        return 0;
    }
    uintptr_t value =
        (encoding & FORM_SIGN) != 0 ? (uintptr_t)bytes_signed(b, size) : bytes_unsigned(b, size);
    return relative_to_place(encoding) ? place + value : value;
}

/* An entry of the sorted table: where a function and its FDE are, relative to the header. */
struct place {
    int32_t function, entry;
};

static struct place place_at(const unsigned char *table, size_t index) {
    struct place place;
    memcpy(&place, table + index * sizeof place, sizeof place);
    return place;
}

/* The FDE of the last function that begins at or before the address; 0 if there is none. */
static uintptr_t find_entry(const struct module *m, uintptr_t address) {
    uintptr_t base = (uintptr_t)m->header;
    struct bytes b = bytes_from(m, base);
    unsigned version = (unsigned)bytes_unsigned(&b, 1);
    unsigned frames = (unsigned)bytes_unsigned(&b, 1);
    unsigned counted = (unsigned)bytes_unsigned(&b, 1);
    unsigned table = (unsigned)bytes_unsigned(&b, 1);
    if (version != 1 || counted != FORM_U4 || table != (RELATIVE_TO_HEADER | FORM_S4)) {
        return 0;
    }
    bytes_unsigned(&b, frames == OMITTED ? 0 : form_bytes(frames));
    size_t count = bytes_unsigned(&b, 4);
    if (b.bad || count > bytes_left(&b) / sizeof(struct place)) {
        return 0;
    }
    size_t before = 0; /* entries 0 to before-1 begin at or before the address */
    size_t behind = count;
    while (before < behind) {
        size_t middle = before + (behind - before) / 2;
        if (base + (uintptr_t)(intptr_t)place_at(b.at, middle).function <= address) {
            before = middle + 1;
        } else {
            behind = middle;
        }
    }
    return before == 0 ? 0 : base + (uintptr_t)(intptr_t)place_at(b.at, before - 1).entry;
}

/* What a CIE says of how its FDEs are written. */
struct common {
    unsigned address_encoding;
    bool augmented;
};

/* Reads what the augmentation `letters` of a CIE announce; false if one of them is not known. */
static bool read_augmentation(struct bytes *b, const char *letters, struct common *common,
                              struct cfi_function *out) {
    common->address_encoding = FORM_ABSOLUTE;
    common->augmented = *letters == 'z';
    if (!common->augmented) {
        return *letters == '\0';
    }
    struct bytes data = bytes_part(b, bytes_uleb(b));
    for (letters++; *letters != '\0'; letters++) {
        if (*letters == 'R') {
            common->address_encoding = (unsigned)bytes_unsigned(&data, 1);
        } else if (*letters == 'P') {
            unsigned encoding = (unsigned)bytes_unsigned(&data, 1);
            bytes_unsigned(&data, form_bytes(encoding));
        } else if (*letters == 'L') {
            bytes_unsigned(&data, 1);
        } else if (*letters == 'S') {
            out->signal = true;
        } else {
            return false;
        }
    }
    return !data.bad;
}

/* The contents of the CIE or FDE at `address`, behind its length. Of the 64-bit form, which is not known,
 * there are none, and they are `bad`. */
static struct bytes read_block(const struct module *m, uintptr_t address) {
    struct bytes b = bytes_from(m, address);
    uint64_t count = bytes_unsigned(&b, 4);
    b.bad = b.bad || count == 0 || count >= 0xFFFFFFF0U || count > bytes_left(&b);
    b.end = b.bad ? b.at : b.at + count;
    return b;
}

#define LETTERS_MOST 8

/* Reads the CIE at `address`; false if it is in a form that is not known. */
static bool read_common(const struct module *m, uintptr_t address, struct common *common,
                        struct cfi_function *out) {
    struct bytes b = read_block(m, address);
    uint64_t id = bytes_unsigned(&b, 4);
    uint64_t version = bytes_unsigned(&b, 1);
    char letters[LETTERS_MOST] = {0};
    size_t length = 0;
    unsigned char c = (unsigned char)bytes_unsigned(&b, 1);
    for (; c != 0 && length < LETTERS_MOST - 1; c = (unsigned char)bytes_unsigned(&b, 1)) {
        letters[length++] = (char)c;
    }
    if (b.bad || c != 0 || id != 0 || (version != 1 && version != 3)) {
        return false;
    }
    out->code_unit = bytes_uleb(&b);
    out->data_unit = bytes_sleb(&b);
    uint64_t column = version == 1 ? bytes_unsigned(&b, 1) : bytes_uleb(&b);
    bool understood = read_augmentation(&b, letters, common, out);
    out->common = b;
    return understood && !b.bad && column == CFI_RETURN_ADDRESS;
}

/* Reads the FDE at `entry` and the CIE that it refers to; false if one is in a form that is not known. */
static bool read_entry(const struct module *m, uintptr_t entry, struct cfi_function *out) {
    *out = (struct cfi_function){0};
    struct bytes b = read_block(m, entry);
    uintptr_t place = (uintptr_t)b.at;
    uint64_t back = bytes_unsigned(&b, 4); /* from its own place to the CIE; 0 in a CIE */
    struct common common;
    if (b.bad || back == 0 || !read_common(m, place - back, &common, out)) {
        return false;
    }
    unsigned encoding = common.address_encoding;
    out->start = read_pointer(&b, encoding);
    out->end = out->start + read_pointer(&b, encoding & FORM_BITS & ~(unsigned)FORM_SIGN);
    if (common.augmented) {
        bytes_part(&b, bytes_uleb(&b));
    }
    out->own = b;
    out->address_bytes = form_bytes(encoding);
    out->address_relative = relative_to_place(encoding);
    return !b.bad;
}

struct rule table_rule(const struct module *module, uintptr_t address) {
    uintptr_t entry = module->header != NULL ? find_entry(module, address) : 0;
    struct cfi_function function;
    if (entry == 0 || !read_entry(module, entry, &function) || address < function.start ||
        address >= function.end) {
        return rule_of_verdict(RULE_UNTOLD);
    }
    return cfi_rule(&function, address);
}
