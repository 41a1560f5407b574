/* How old the process is, for readers of its figures.
 *
 * Promises one moment for all of them, whichever asks first. Any thread, signal handlers too. Relies on os.
 */
#ifndef HAKMEM_OBSERVE_UPTIME_H
#define HAKMEM_OBSERVE_UPTIME_H

#include <stdint.h>

/* When the library was loaded, which is when this was first called, in milliseconds of os_now_ms. */
uint64_t loaded_ms(void);

#endif
