/* What a program asks of the heap as a whole, where libc's allocator serves instead of this one.
 *
 * Promises that malloc_trim, mallopt and the like are then about the heap that the program has. Relies on the
 * start and on the loader.
 */
#ifndef HAKMEM_API_LIBC_SERVES_H
#define HAKMEM_API_LIBC_SERVES_H

#include <stdbool.h>

/* Whether libc's allocator serves, and has a function called `name`: `function`, a pointer to a pointer to
 * such a function, gets it. */
bool libc_serves(const char *name, void *function);

#endif
