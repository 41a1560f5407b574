/* DWARF expressions, as far as unwind tables use them: signal frames, procedure linkage
 * stubs, realigned stacks.
 *
 * The result is not a number but how to get it from the registers, so that it holds whenever the instruction
 * is met again. Promises false for everything that it does not understand. Relies on cfi_bytes.
 */
#ifndef HAKMEM_PROFILE_CFI_EXPRESSION_H
#define HAKMEM_PROFILE_CFI_EXPRESSION_H

#include "profile/cfi_bytes.h"
#include "profile/unwind_rule.h"

/* The value base + offset, or, if `loaded`, the word that stands at that address. */
struct cfi_value {
    enum rule_base base; /* BASE_NONE: `offset` alone */
    bool loaded;
    int64_t offset;
};

/* Evaluates an expression for the instruction at `address` into `out`; false if it is not understood. `first`
 * is what stands on the expression's stack to begin with; NULL if nothing does. */
bool cfi_evaluate(struct bytes expression, uintptr_t address, const struct cfi_value *first,
                  struct cfi_value *out);

#endif
