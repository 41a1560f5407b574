/* library.h: functions of the library's, for programs that are not linked to it. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <dlfcn.h>

#include "check.h"

static inline void *library_function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        fprintf(stderr, "%s is not exported\n", name);
    REQUIRE(found != NULL);
    return found;
}

#endif
