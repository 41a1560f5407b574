/* How an entry point gets its second, standard name.
 *
 * Promises that both names are one function. In the build that unit tests link, the standard names are
 * left to libc (or to the sanitizer). Relies on nothing.
 */
#ifndef HAKMEM_API_NAMES_H
#define HAKMEM_API_NAMES_H

#include "hakmem.h"

/* Gives the function `own` of the same file the name `standard`, too. */
#ifdef HAKMEM_STANDARD_NAMES
#define ALSO_NAMED(standard, own, result, parameters)                                                        \
    HAK_EXPORT result standard parameters __attribute__((alias(#own)));
#else
#define ALSO_NAMED(standard, own, result, parameters)
#endif

#endif
