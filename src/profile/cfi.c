#include "profile/cfi.h"

#include "profile/cfi_expression.h"

/* Instructions as in DWARF 4, 7.23; GNU extensions as in the Linux Standard Base, 10.5. The first three have
 * an operand in the low bits. */
enum {
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xC0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0A,
    CFA_RESTORE_STATE = 0x0B,
    CFA_DEF_CFA = 0x0C,
    CFA_DEF_CFA_REGISTER = 0x0D,
    CFA_DEF_CFA_OFFSET = 0x0E,
    CFA_DEF_CFA_EXPRESSION = 0x0F,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2E,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2F,
};

#define HIGH_BITS 0xC0u
#define LOW_BITS 0x3Fu
#define STATES_MOST 4

enum saved_how { SAVED_NOT, SAVED_AT_OFFSET, SAVED_BY_EXPRESSION, SAVED_LOST };

/* Where the caller's value of a register is. */
struct saved {
    enum saved_how how;
    int64_t offset;          /* SAVED_AT_OFFSET: from the frame address */
    struct bytes expression; /* SAVED_BY_EXPRESSION: of the place */
};

enum { POINTER, RETURN, REGISTERS };

/* What holds at one instruction: how to get the frame address, and where registers are saved. */
struct state {
    bool by_expression; /* the frame address is the value of `expression` */
    uint64_t base;      /* else: the register with this number, plus `offset` */
    int64_t offset;
    struct bytes expression;
    struct saved saved[REGISTERS];
};

struct run {
    const struct cfi_function *function;
    uintptr_t location, address;
    struct state now, initial;
    struct state remembered[STATES_MOST];
    unsigned depth;
    bool past; /* `location` is beyond `address`, the instruction that was asked about */
    bool bad;  /* the program is not understood */
};

static void advance(struct run *run, uint64_t by) {
    uintptr_t location = run->location + by * run->function->code_unit;
    run->past = location > run->address;
    run->location = location;
}

static void set_location(struct run *run, struct bytes *code) {
    uintptr_t here = (uintptr_t)code->at;
    unsigned size = run->function->address_bytes;
    if (size == 0) {
        run->bad = true;
        return;
    }
    run->location = run->function->address_relative ? here + (uintptr_t)bytes_signed(code, size)
                                                    : (uintptr_t)bytes_unsigned(code, size);
    run->past = run->location > run->address;
}

static void save(struct run *run, uint64_t number, struct saved saved) {
    if (number == CFI_FRAME_POINTER) {
        run->now.saved[POINTER] = saved;
    } else if (number == CFI_RETURN_ADDRESS) {
        run->now.saved[RETURN] = saved;
    }
}

static void save_at(struct run *run, uint64_t number, int64_t units) {
    int64_t offset = (int64_t)((uint64_t)units * (uint64_t)run->function->data_unit);
    save(run, number, (struct saved){.how = SAVED_AT_OFFSET, .offset = offset});
}

static void restore(struct run *run, uint64_t number) {
    if (number == CFI_FRAME_POINTER) {
        run->now.saved[POINTER] = run->initial.saved[POINTER];
    } else if (number == CFI_RETURN_ADDRESS) {
        run->now.saved[RETURN] = run->initial.saved[RETURN];
    }
}

static void define_frame(struct run *run, uint64_t number, int64_t offset) {
    run->now.by_expression = false;
    run->now.base = number;
    run->now.offset = offset;
}

static void remember(struct run *run) {
    if (run->depth == STATES_MOST) {
        run->bad = true;
        return;
    }
    run->remembered[run->depth++] = run->now;
}

static void recall(struct run *run) {
    if (run->depth == 0) {
        run->bad = true;
        return;
    }
    run->now = run->remembered[--run->depth];
}

/* Executes an instruction that says what the frame address is, or moves on; false if it is none of these. */
static bool step_frame(struct run *run, unsigned op, struct bytes *code) {
    int64_t unit = run->function->data_unit;
    uint64_t number;
    switch (op) {
    case CFA_NOP:
        return true;
    case CFA_SET_LOC:
        set_location(run, code);
        return true;
    case CFA_ADVANCE_LOC1:
        advance(run, bytes_unsigned(code, 1));
        return true;
    case CFA_ADVANCE_LOC2:
        advance(run, bytes_unsigned(code, 2));
        return true;
    case CFA_ADVANCE_LOC4:
        advance(run, bytes_unsigned(code, 4));
        return true;
    case CFA_REMEMBER_STATE:
        remember(run);
        return true;
    case CFA_RESTORE_STATE:
        recall(run);
        return true;
    case CFA_DEF_CFA:
        number = bytes_uleb(code);
        define_frame(run, number, (int64_t)bytes_uleb(code));
        return true;
    case CFA_DEF_CFA_SF:
        number = bytes_uleb(code);
        define_frame(run, number, (int64_t)((uint64_t)bytes_sleb(code) * (uint64_t)unit));
        return true;
    case CFA_DEF_CFA_REGISTER:
        define_frame(run, bytes_uleb(code), run->now.offset);
        return true;
    case CFA_DEF_CFA_OFFSET:
        run->now.offset = (int64_t)bytes_uleb(code);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        run->now.offset = (int64_t)((uint64_t)bytes_sleb(code) * (uint64_t)unit);
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        run->now.by_expression = true;
        run->now.expression = bytes_part(code, bytes_uleb(code));
        return true;
    case CFA_GNU_ARGS_SIZE: /* matters to whoever resumes in the function, as for an exception */
        bytes_uleb(code);
        return true;
    default:
        return false;
    }
}

/* Executes an instruction that says where a register is saved; others set `bad`. */
static void step_register(struct run *run, unsigned op, struct bytes *code) {
    uint64_t number = bytes_uleb(code);
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        save_at(run, number, (int64_t)bytes_uleb(code));
        break;
    case CFA_OFFSET_EXTENDED_SF:
        save_at(run, number, bytes_sleb(code));
        break;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        save_at(run, number, (int64_t)-bytes_uleb(code));
        break;
    case CFA_RESTORE_EXTENDED:
        restore(run, number);
        break;
    case CFA_SAME_VALUE:
        save(run, number, (struct saved){.how = SAVED_NOT});
        break;
    case CFA_UNDEFINED:
        save(run, number, (struct saved){.how = SAVED_LOST});
        break;
    case CFA_EXPRESSION:
        save(run, number,
             (struct saved){.how = SAVED_BY_EXPRESSION, .expression = bytes_part(code, bytes_uleb(code))});
        break;
    case CFA_REGISTER:
    case CFA_VAL_OFFSET:
        bytes_uleb(code);
        save(run, number, (struct saved){.how = SAVED_LOST});
        break;
    case CFA_VAL_OFFSET_SF:
        bytes_sleb(code);
        save(run, number, (struct saved){.how = SAVED_LOST});
        break;
    case CFA_VAL_EXPRESSION:
        bytes_part(code, bytes_uleb(code));
        save(run, number, (struct saved){.how = SAVED_LOST});
        break;
    default:
        run->bad = true;
        break;
    }
}

static void run_program(struct run *run, struct bytes code) {
    while (bytes_left(&code) > 0 && !run->past && !run->bad) {
        unsigned op = (unsigned)bytes_unsigned(&code, 1);
        unsigned operand = op & LOW_BITS;
        if ((op & HIGH_BITS) == CFA_ADVANCE_LOC) {
            advance(run, operand);
        } else if ((op & HIGH_BITS) == CFA_OFFSET) {
            save_at(run, operand, (int64_t)bytes_uleb(&code));
        } else if ((op & HIGH_BITS) == CFA_RESTORE) {
            restore(run, operand);
        } else if (!step_frame(run, op, &code)) {
            step_register(run, op, &code);
        }
        run->bad = run->bad || code.bad;
    }
}

#define WORD ((int64_t)sizeof(uintptr_t))
#define FRAME_WORDS_MOST (((int64_t)1 << 23) - 1)

/* Puts into the rule how to get the frame address; false if that cannot be said in a rule. */
static bool place_frame(const struct run *run, struct rule *out) {
    struct cfi_value value = {.base = BASE_NONE, .offset = run->now.offset};
    if (run->now.by_expression) {
        if (!cfi_evaluate(run->now.expression, run->address, NULL, &value)) {
            return false;
        }
    } else if (run->now.base == CFI_STACK_POINTER) {
        value.base = BASE_STACK_POINTER;
    } else if (run->now.base == CFI_FRAME_POINTER) {
        value.base = BASE_FRAME_POINTER;
    }
    int64_t words = value.offset / WORD;
    if (value.base == BASE_NONE || value.offset % WORD != 0 || words < -FRAME_WORDS_MOST ||
        words > FRAME_WORDS_MOST) {
        return false;
    }
    out->frame_by_pointer = value.base == BASE_FRAME_POINTER;
    out->frame_loaded = value.loaded;
    out->frame_words = (uint32_t)words & 0xFFFFFF;
    return true;
}

/* Stores in `base` and `words` where a saved register stands; false if it is not saved, or if its place
 * cannot be said in a rule. */
static bool place_saved(const struct run *run, const struct saved *saved, enum rule_base *base,
                        int16_t *words) {
    struct cfi_value value = {.base = BASE_FRAME, .offset = saved->offset};
    if (saved->how == SAVED_BY_EXPRESSION) {
        struct cfi_value frame = {.base = BASE_FRAME};
        if (!cfi_evaluate(saved->expression, run->address, &frame, &value)) {
            return false;
        }
    } else if (saved->how != SAVED_AT_OFFSET) {
        return false;
    }
    int64_t in_words = value.offset / WORD;
    *base = value.base;
    *words = (int16_t)in_words;
    return value.base != BASE_NONE && !value.loaded && value.offset % WORD == 0 && *words == in_words;
}

struct rule cfi_rule(const struct cfi_function *function, uintptr_t address) {
    struct run run;
    run.function = function;
    run.location = function->start;
    run.address = address;
    run.depth = 0;
    run.past = run.bad = false;
    run.now = (struct state){.base = CFI_RETURN_ADDRESS}; /* no frame address yet: none is relative to that */
    run.now.saved[RETURN].how = SAVED_LOST;
    run_program(&run, function->common);
    run.initial = run.now;
    run_program(&run, function->own);

    struct rule rule = {.signal = function->signal};
    enum rule_base base;
    int16_t words;
    if (run.bad || !place_frame(&run, &rule) || !place_saved(&run, &run.now.saved[RETURN], &base, &words)) {
        return rule_of_verdict(RULE_END);
    }
    rule.return_base = base & 3U;
    rule.return_words = words;
    rule.pointer_base = BASE_NONE;
    rule.pointer_kept = run.now.saved[POINTER].how == SAVED_NOT;
    if (place_saved(&run, &run.now.saved[POINTER], &base, &words)) {
        rule.pointer_base = base & 3U;
        rule.pointer_words = words;
    }
    return rule;
}
