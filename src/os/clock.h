/* Clocks beside os_now_ms.
 *
 * Promises no system call where the kernel has a vDSO, and to keep errno. Relies on libc's clock_gettime.
 */
#ifndef HAKMEM_OS_CLOCK_H
#define HAKMEM_OS_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Only goes forward; exact, for measuring short times. */
uint64_t os_now_ns(void);
/* Since 1970. */
uint64_t os_real_ms(void);

#ifdef HAKMEM_FAULTS
/* For tests: the machine stands still for `ns` just before os_now_ns is called for the `after`th time from
 * now. */
void os_clock_stall(unsigned after, uint64_t ns);
#endif

#ifdef __cplusplus
}
#endif
#endif
