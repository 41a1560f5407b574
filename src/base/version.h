/* The version of the library, as text. */
#ifndef HAKMEM_BASE_VERSION_H
#define HAKMEM_BASE_VERSION_H

#include "hakmem.h"

#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x) VERSION_TEXT_(x)
#define VERSION                                                                                              \
    VERSION_TEXT(HAKMEM_VERSION_MAJOR)                                                                       \
    "." VERSION_TEXT(HAKMEM_VERSION_MINOR) "." VERSION_TEXT(HAKMEM_VERSION_PATCH)

#endif
