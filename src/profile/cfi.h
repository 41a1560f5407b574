/* Call frame information: runs the program that unwind tables have for a function, up to an instruction.
 *
 * Promises to look only at what it is given, to end, and to understand what compilers and glibc write for
 * x86-64 as far as stack pointer, frame pointer and return address go. Nothing else is followed: a frame
 * address that depends on another register ends the stack. Relies on cfi_bytes and cfi_expression.
 */
#ifndef HAKMEM_PROFILE_CFI_H
#define HAKMEM_PROFILE_CFI_H

#include "profile/cfi_bytes.h"
#include "profile/unwind_rule.h"

/* DWARF's numbers of registers (x86-64 psABI, figure 3.36). */
#define CFI_FRAME_POINTER 6
#define CFI_STACK_POINTER 7
#define CFI_RETURN_ADDRESS 16

/* What the tables have for one function: its FDE and the CIE that it refers to. */
struct cfi_function {
    uintptr_t start, end;
    struct bytes common, own; /* the programs of the CIE and of the FDE */
    uint64_t code_unit;       /* the programs' unit for distances in code, and */
    int64_t data_unit;        /* for offsets of saved registers */
    unsigned address_bytes;   /* size of an address in DW_CFA_set_loc; 0: its form is not understood */
    bool address_relative;    /* such an address is relative to its own place */
    bool signal;              /* the frame's caller was interrupted by a signal, it made no call */
};

/* The rule for the instruction at `address`, which is within the function; RULE_END if the tables' program is
 * not understood, or there is no caller. */
struct rule cfi_rule(const struct cfi_function *function, uintptr_t address);

#endif
