/* Fault injection for tests: makes the next calls into the OS layer fail as the kernel would.
 *
 * Promises that a build without HAKMEM_FAULTS has none of it. Relies on nothing.
 */
#ifndef HAKMEM_OS_FAULT_H
#define HAKMEM_OS_FAULT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum os_fault {
    OS_FAULT_RESERVE, /* address space: mmap of PROT_NONE or of internal memory */
    OS_FAULT_COMMIT,  /* making reserved memory usable: mprotect */
    OS_FAULT_PURGE,   /* giving pages back: madvise */
    OS_FAULT_REMAP,   /* moving huge blocks: mremap, twice for each */
    OS_FAULT_KINDS
};

/* After `after` more successful calls of `kind`, the following `count` calls fail (errno ENOMEM).
 * `count` < 0 means every one; 0 switches the fault off. Process-wide; call while no other thread
 * is inside the OS layer, or accept that it may take effect a call late. */
void os_fault_set(enum os_fault kind, long after, long count);

/* Has `heard` called before each call of any kind, and each that unmaps or asks what is resident, from now
 * on, by the thread that makes it; NULL: nobody is. */
void os_fault_listen(void (*heard)(void));

/* Sets the nanoseconds that os_touch, and os_back_by_huge_page by it, report from now on instead of what they
 * measure, so that tests do not depend on the machine. 0 before the first call. */
void os_fault_set_huge_page_ns(uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
