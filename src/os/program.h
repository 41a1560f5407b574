/* The program that the library is in: how far it has come.
 *
 * Promises answers for a few instructions each, from any thread and signal handler. Relies on glibc's
 * __libc_start_main, in front of which the shared library stands, and on its __libc_single_threaded.
 */
#ifndef HAKMEM_OS_PROGRAM_H
#define HAKMEM_OS_PROGRAM_H

#include <stdbool.h>

/* Keeps the short name of the program that was started as `invoked`: libc's stands in the arguments' memory,
 * which daemons write a title over, and is not known yet when the shared library is initialised. Once, before
 * main. */
void os_note_program_name(const char *invoked);
/* The name that was noted, up to 63 bytes of it; without that, what is the name now. */
const char *os_program_name(void);

/* Whether the program has, or once had, more than one thread. */
bool os_program_has_threads(void);

/* Whether the library was there when the program began, in its namespace: its constructors have come before.
 */
bool os_started_the_program(void);
/* Whether the program's own code has begun; what ran until then was constructors. */
bool os_main_has_begun(void);

#endif
