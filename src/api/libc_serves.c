#define _GNU_SOURCE
#include "api/libc_serves.h"

#include "base/bits.h"
#include "heap/runtime.h"
#include "os/os.h"

#include <dlfcn.h>
#include <string.h>

/* Absent from a program without a loader. */
#pragma weak dlsym

COLD bool libc_serves(const char *name, void *function) {
    if (LIKELY(!runtime_libc_forced()) || dlsym == NULL) {
        return false;
    }
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}
