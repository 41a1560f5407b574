#define _GNU_SOURCE
#include "os/loader.h"

#include <dlfcn.h>
#include <stddef.h>

#pragma weak dlsym

void *os_next_function(const char *name) {
    return dlsym == NULL ? NULL : dlsym(RTLD_NEXT, name);
}
