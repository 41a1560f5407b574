#include "api/libc_serves.h"

#include "base/bits.h"
#include "heap/runtime.h"
#include "os/loader.h"

#include <string.h>

COLD bool libc_serves(const char *name, void *function) {
    if (LIKELY(!runtime_libc_forced())) {
        return false;
    }
    void *found = os_next_function(name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}
