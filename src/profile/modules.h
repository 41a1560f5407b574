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
    uintptr_t start, end;   /* of its code */
    uintptr_t load_address; /* what to take off an address to get the one that the file's symbols have */
    const char *path;
};

/* The modules that are loaded now; NULL if there is no memory. */
struct modules *modules_load(void);
/* The module whose code `address` is in, or NULL; `modules` may be NULL. */
const struct module *modules_find(const struct modules *modules, uintptr_t address);
void modules_end(struct modules *modules); /* NULL is allowed */

#endif
