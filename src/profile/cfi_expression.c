#include "profile/cfi_expression.h"

#include "profile/cfi.h"

/* Operations, with their numbers from DWARF 4, 7.7.1. */
enum {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST8S = 0x0F,
    OP_CONSTU = 0x10,
    OP_CONSTS = 0x11,
    OP_AND = 0x1A,
    OP_MINUS = 0x1C,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2A,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4F,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8F,
};

#define DEPTH_MOST 8

struct machine {
    struct cfi_value stack[DEPTH_MOST];
    unsigned depth;
    bool bad;
};

static void push(struct machine *m, struct cfi_value value) {
    if (m->depth == DEPTH_MOST) {
        m->bad = true;
        return;
    }
    m->stack[m->depth++] = value;
}

static void push_number(struct machine *m, int64_t number) {
    push(m, (struct cfi_value){.base = BASE_NONE, .offset = number});
}

static struct cfi_value pop(struct machine *m) {
    if (m->depth == 0) {
        m->bad = true;
        return (struct cfi_value){.base = BASE_NONE};
    }
    return m->stack[--m->depth];
}

static void push_register(struct machine *m, unsigned number, int64_t offset, uintptr_t address) {
    struct cfi_value value = {.base = BASE_NONE, .offset = offset};
    if (number == CFI_STACK_POINTER) {
        value.base = BASE_STACK_POINTER;
    } else if (number == CFI_FRAME_POINTER) {
        value.base = BASE_FRAME_POINTER;
    } else if (number == CFI_RETURN_ADDRESS) {
        value.offset += (int64_t)address;
    } else {
        m->bad = true;
    }
    push(m, value);
}

static int64_t wrapped_sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void add(struct machine *m, struct cfi_value a, struct cfi_value b) {
    struct cfi_value sum = a.base != BASE_NONE ? a : b;
    m->bad = m->bad || a.loaded || b.loaded || (a.base != BASE_NONE && b.base != BASE_NONE);
    sum.offset = wrapped_sum(a.offset, b.offset);
    push(m, sum);
}

static void load(struct machine *m) {
    struct cfi_value value = pop(m);
    m->bad = m->bad || value.loaded || value.base == BASE_NONE;
    value.loaded = true;
    push(m, value);
}

static void combine(struct machine *m, unsigned op) {
    struct cfi_value b = pop(m);
    struct cfi_value a = pop(m);
    if (op == OP_PLUS) {
        add(m, a, b);
        return;
    }
    m->bad = m->bad || a.loaded || b.base != BASE_NONE;
    if (op == OP_MINUS) {
        a.offset = wrapped_sum(a.offset, (int64_t) - (uint64_t)b.offset);
        push(m, a);
        return;
    }
    m->bad = m->bad || a.base != BASE_NONE;
    if (op == OP_AND) {
        push_number(m, a.offset & b.offset);
    } else if (op == OP_GE) {
        push_number(m, a.offset >= b.offset);
    } else {
        push_number(m, b.offset >= 0 && b.offset < 64 ? (int64_t)((uint64_t)a.offset << b.offset) : 0);
    }
}

bool cfi_evaluate(struct bytes code, uintptr_t address, const struct cfi_value *first,
                  struct cfi_value *out) {
    struct machine m = {.depth = 0};
    if (first != NULL) {
        push(&m, *first);
    }
    while (bytes_left(&code) > 0 && !m.bad) {
        unsigned op = (unsigned)bytes_unsigned(&code, 1);
        if (op >= OP_LIT0 && op <= OP_LIT31) {
            push_number(&m, (int64_t)op - OP_LIT0);
        } else if (op >= OP_BREG0 && op <= OP_BREG31) {
            push_register(&m, op - OP_BREG0, bytes_sleb(&code), address);
        } else if (op >= OP_CONST1U && op <= OP_CONST8S) { /* 1, 2, 4, 8 bytes, each unsigned and signed */
            unsigned size = 1U << ((op - OP_CONST1U) / 2);
            bool is_signed = (op - OP_CONST1U) % 2 != 0;
            push_number(&m, is_signed ? bytes_signed(&code, size) : (int64_t)bytes_unsigned(&code, size));
        } else if (op == OP_CONSTU) {
            push_number(&m, (int64_t)bytes_uleb(&code));
        } else if (op == OP_CONSTS) {
            push_number(&m, bytes_sleb(&code));
        } else if (op == OP_PLUS_UCONST) {
            struct cfi_value number = {.base = BASE_NONE, .offset = (int64_t)bytes_uleb(&code)};
            add(&m, pop(&m), number);
        } else if (op == OP_DEREF) {
            load(&m);
        } else if (op == OP_PLUS || op == OP_MINUS || op == OP_AND || op == OP_GE || op == OP_SHL) {
            combine(&m, op);
        } else {
            m.bad = true;
        }
    }
    *out = pop(&m);
    return !m.bad && !code.bad;
}
