#define _GNU_SOURCE

#include "base/bits.h"
#include "hakmem.h"
#include "options/options.h"
#include "os/loader.h"

#include <dlfcn.h>
#include <stdatomic.h>

#ifdef HAKMEM_SHARED

typedef void *opener(const char *, int);

/* A library that is loaded with RTLD_DEEPBIND looks for malloc in libc, with which it is linked, before it
 * looks in what is preloaded: blocks that cross its border then go back to the wrong allocator, and libc's
 * ends the program (PHP loads its extensions so). Without the flag there is one allocator in the process.
 * libc tells by the return address whose RUNPATH to search: so its dlopen must be entered by a jump that
 * leaves no frame of this function, in a build without optimisation, too. */
#ifdef __clang__
#define LAST_CALL __attribute__((musttail))
#else
#define LAST_CALL
__attribute__((optimize("O2")))
#endif
COLD HAK_EXPORT void *dlopen(const char *file, int mode) {
    /* libc's. relaxed everywhere: whoever looks it up finds the same, and code does not change */
    static opener *_Atomic next;
    opener *open = atomic_load_explicit(&next, memory_order_relaxed);
    if (open == NULL) {
        open = (opener *)os_next_function("dlopen");
        atomic_store_explicit(&next, open, memory_order_relaxed);
    }
    bool keeps = option_bool(OPTION_DEEPBIND) || option_bool(OPTION_FORCE_LIBC_ALLOC);
    LAST_CALL return open(file, keeps ? mode : mode & ~RTLD_DEEPBIND);
}

#endif
