/* The unwind tables of a module: from an address to its rule.
 *
 * Promises RULE_UNTOLD where there is no entry, or one in a form that linkers do not write, or tables that
 * lead out of what is loaded of the module's file, of which nothing is read then. Relies on the module's
 * program headers, and on .eh_frame_hdr with the sorted table that every linker makes (--eh-frame-hdr).
 */
#ifndef HAKMEM_PROFILE_UNWIND_TABLE_H
#define HAKMEM_PROFILE_UNWIND_TABLE_H

#include "profile/unwind_module.h"
#include "profile/unwind_rule.h"

/* The rule for the instruction at `address`, which is in the module. */
struct rule table_rule(const struct module *module, uintptr_t address);

#endif
