/* How to get from a frame to the one that called it: what unwind tables say about one instruction, made
 * short.
 *
 * The *frame address* is DWARF's CFA: the value of the stack pointer before the call. A rule is one word, so
 * that it can be kept and read whole; offsets are in words of 8 bytes. Promises no state. Relies on nothing.
 */
#ifndef HAKMEM_PROFILE_UNWIND_RULE_H
#define HAKMEM_PROFILE_UNWIND_RULE_H

#include <stdint.h>
#include <string.h>

enum rule_base {
    BASE_FRAME,         /* the frame address */
    BASE_STACK_POINTER, /* the stack pointer at the instruction */
    BASE_FRAME_POINTER, /* the frame pointer at the instruction: rbp */
    BASE_NONE
};

struct rule {
    uint32_t frame_words : 24; /* the frame address is the stack pointer plus this; see rule_frame_words */
    uint32_t frame_by_pointer : 1; /* it is the frame pointer plus that instead */
    uint32_t frame_loaded : 1;     /* it is the word that stands at that sum */
    uint32_t return_base : 2;      /* base of where the return address stands; BASE_NONE: see return_words */
    uint32_t pointer_base : 2;     /* base of where the caller's frame pointer stands; BASE_NONE: nowhere */
    uint32_t pointer_kept : 1;     /* the register still has the caller's frame pointer; else that is lost */
    uint32_t signal : 1;           /* a signal interrupted the caller, it made no call */
    int16_t return_words;          /* offset from return_base, or an enum rule_verdict */
    int16_t pointer_words;         /* offset from pointer_base */
};
_Static_assert(sizeof(struct rule) == sizeof(uint64_t), "a rule is one word");

/* What return_words says where return_base is BASE_NONE. */
enum rule_verdict {
    RULE_END = 1,   /* the stack ends here, or goes on in a way that is not understood */
    RULE_UNTOLD = 2 /* the tables say nothing about this place */
};

static inline struct rule rule_of_verdict(enum rule_verdict verdict) {
    return (struct rule){
        .return_base = BASE_NONE, .pointer_base = BASE_NONE, .return_words = (int16_t)verdict};
}

/* frame_words as the signed number that it is. */
static inline int32_t rule_frame_words(struct rule rule) {
    return (int32_t)((uint32_t)rule.frame_words << 8) >> 8;
}

/* The rule as one word, which is never 0. */
static inline uint64_t rule_word(struct rule rule) {
    uint64_t word;
    memcpy(&word, &rule, sizeof word);
    return word;
}

static inline struct rule rule_from_word(uint64_t word) {
    struct rule rule;
    memcpy(&rule, &word, sizeof rule);
    return rule;
}

#endif
