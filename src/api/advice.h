/* The library's madvise, under a name that nobody can take: see advice.c.
 *
 * Promises what madvise does, and that free memory asks for no huge pages of the program's. Relies on
 * arena/huge_pages.
 */
#ifndef HAKMEM_API_ADVICE_H
#define HAKMEM_API_ADVICE_H

#include <stddef.h>

/* As madvise. Any thread. */
int advice_take(void *address, size_t bytes, int advice);

#endif
