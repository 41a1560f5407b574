#define _GNU_SOURCE /* for dladdr */
#include "release.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define WEAK __attribute__((weak))

/* mallopt's M_PURGE_ALL, which scudo has from Android. */
#define PURGE_ALL (-104)

/* Weak: those of the allocator that is preloaded are there, and no others. */
WEAK extern void mi_collect(bool force); /* mimalloc */
/* jemalloc */
WEAK extern int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
WEAK extern void MallocExtension_ReleaseFreeMemory(void); /* gperftools */
/* tcmalloc::MallocExtension::ReleaseMemoryToSystem(size_t) of Google's, which has it for C++ only. */
WEAK extern void
tcmalloc_release(size_t bytes) __asm__("_ZN8tcmalloc15MallocExtension21ReleaseMemoryToSystemEm");
WEAK extern int malloc_trim(size_t pad);
WEAK extern int mallopt(int option, int value);

static const void *library_of(const char *function) {
    void *address = dlsym(RTLD_DEFAULT, function);
    Dl_info found;
    return address != NULL && dladdr(address, &found) != 0 ? found.dli_fbase : NULL;
}

/* Beside an allocator that does not define it, the C library's is there, and asks a heap that nobody uses. */
static bool is_the_allocators(const char *function) {
    const void *library = library_of(function);
    return library != NULL && library == library_of("malloc");
}

bool release_memory(void) {
    if (mi_collect != NULL) {
        mi_collect(true);
    } else if (mallctl != NULL) {
        mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
        mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* MALLCTL_ARENAS_ALL */
    } else if (MallocExtension_ReleaseFreeMemory != NULL) {
        MallocExtension_ReleaseFreeMemory();
    } else if (tcmalloc_release != NULL) {
        tcmalloc_release(SIZE_MAX);
    } else if (is_the_allocators("malloc_trim")) {
        malloc_trim(0);
    } else {
        return is_the_allocators("mallopt") && mallopt(PURGE_ALL, 0) != 0;
    }
    return true;
}
