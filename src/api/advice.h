/* The library's madvise, under a name that nobody can take: see advice.c. */
#ifndef HAKMEM_API_ADVICE_H
#define HAKMEM_API_ADVICE_H

#include <stddef.h>

/* As madvise. Any thread. */
int advice_take(void *address, size_t bytes, int advice);

#endif
