/* What the process may do, and whether that has changed.
 *
 * Promises nothing kept between two calls. Relies on /proc.
 */
#ifndef HAKMEM_OS_CREDENTIALS_H
#define HAKMEM_OS_CREDENTIALS_H

#include <stdint.h>

/* A number that changes when the process drops privileges or enters a sandbox, as far as its first
 * thread shows it: libc makes all threads that it knows follow, and does not know the library's own. Where
 * the first thread has ended, `witness` shows it, another one of the program's; where that has ended, too,
 * the number changes with each call. 0 if /proc cannot be read. */
uint64_t os_credentials(int witness);

#endif
