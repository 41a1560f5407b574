/* Which loaded program or library an address belongs to, and where its unwind tables are.
 *
 * Promises an answer without a lock, at any time, in a signal handler too, and where the module's header may
 * not be read; that the tables stay mapped is the program's promise, as long as the address is of code that
 * is running. What may be unloaded is not told of, and not looked at, where that is not known.
 * Relies on _dl_find_object where libc has it, else on the program headers that the kernel tells of, which
 * are the program's alone: that is all in a static program. dl_iterate_phdr is no alternative: another thread
 * may hold its lock and wait for one that the caller of malloc holds.
 */
#ifndef HAKMEM_PROFILE_UNWIND_MODULE_H
#define HAKMEM_PROFILE_UNWIND_MODULE_H

#include <stdbool.h>
#include <stdint.h>

struct module {
    uintptr_t start, end;        /* its addresses: all, or those of one segment; the tables may lie outside */
    const unsigned char *header; /* its .eh_frame_hdr; NULL if it has none */
    uint64_t identity; /* differs, in all likelihood, from that of any module that was at its place before; 0
                        * if nothing tells them apart */
};

/* Stores in `out` the module that `address` is in; false if none is known, or if it may be unloaded and the
 * address is not known to be of code that is `running`. */
bool module_find(uintptr_t address, bool running, struct module *out);

/* The end of that part of the module's file which is loaded around `address`, or that of the module if its
 * parts are not known; 0 if the address is in none, or in one that may not be read. */
uintptr_t module_part_end(const struct module *module, uintptr_t address);

#endif
