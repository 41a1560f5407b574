/* Which program or library an instruction belongs to.
 *
 * Promises no allocation from a heap; where there are more modules than it has room for, the rest is unknown.
 * Relies on the kernel's table of mappings.
 */
#ifndef HAKMEM_PROFILE_MODULES_H
#define HAKMEM_PROFILE_MODULES_H

#include <stddef.h>
#include <stdint.h>

struct module {
    uintptr_t start, end;
    uintptr_t load_address;
    const char *path;
};

/* Those that are loaded now; NULL if there is no memory. */
struct modules *modules_load(void);
/* NULL if it is none's; NULL for `modules` is allowed. */
const struct module *modules_find(const struct modules *modules, uintptr_t address);
void modules_end(struct modules *modules); /* NULL is allowed */

#endif
