/* DWARF expressions, as far as unwind tables use them: signal frames, procedure linkage stubs, realigned
 * stacks.
 *
 * What is worked out is not a number but how to get it from the registers, so that it holds whenever the
 * instruction is met again. Promises false for everything that it does not understand.
 */
#ifndef HAKMEM_PROFILE_CFI_EXPRESSION_H
#define HAKMEM_PROFILE_CFI_EXPRESSION_H

#include "profile/cfi_bytes.h"
#include "profile/unwind_rule.h"

/* base + offset, or what stands there. */
struct cfi_value {
    enum rule_base base; /* BASE_NONE: a plain number */
    bool loaded;
    int64_t offset;
};

/* `address` is that of the instruction, `first` what the expression finds on its stack, NULL if nothing. */
bool cfi_evaluate(struct bytes expression, uintptr_t address, const struct cfi_value *first,
                  struct cfi_value *out);

#endif
