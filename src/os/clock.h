/* Clocks beside os_now_ms.
 *
 * Promises no system call where the kernel has a vDSO, and to keep errno. Relies on libc's clock_gettime.
 */
#ifndef HAKMEM_OS_CLOCK_H
#define HAKMEM_OS_CLOCK_H

#include <stdint.h>

/* Only goes forward; exact, for measuring short times. */
uint64_t os_now_ns(void);
/* Since 1970. */
uint64_t os_real_ms(void);

#endif
