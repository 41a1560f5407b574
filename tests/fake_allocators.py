"""Allocators for tests: small, correct, and each with a trait that shows in what is measured or reported."""

from pathlib import Path

from hakmem.peer_cache import Manifest, store

from tests.c_source import A_LIBRARY, compile_c

# A bump allocator. What is defined by -D changes it:
#   SLEEPS     every malloc gives up the processor
#   WASTES=N   every block takes N more bytes, and touches them
#   ABORTS     it says so and aborts, in programs called "victim"
#   FORWARDS   libc's allocator does the work
#   NO_ALIGNED aligned_alloc and posix_memalign are left out
#   CRASHES    in every program, at once
#   TALKS      on standard output, when it is loaded
_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifndef WASTES
#define WASTES 0
#endif
enum { CHUNK = 256 << 20, UNIT = 16 };
static char *next, *end;
static int busy;

#ifdef FORWARDS
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void free(void *block) { __libc_free(block); }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] & ~(size_t)7 : 0; }
#else
static void trait(void) {
#ifdef CRASHES
    __builtin_trap();
#endif
#ifdef SLEEPS
    int saved = errno;
    /* A sleep that is over before the processor is given up, as some are on a busy machine, does not do. */
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
        getrusage(RUSAGE_THREAD, &after);
    } while (after.ru_nvcsw == before.ru_nvcsw);
    errno = saved;
#endif
#ifdef ABORTS
    if (strcmp(program_invocation_short_name, "victim") == 0) {
        static const char said[] = "fake: heap damaged\n";
        (void)!write(2, said, sizeof said - 1);
        abort();
    }
#endif
}
void *memalign(size_t alignment, size_t size) {
    if (alignment < UNIT)
        alignment = UNIT;
    while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        ;
    uintptr_t block = ((uintptr_t)next + UNIT + alignment - 1) & ~(uintptr_t)(alignment - 1);
    if (next == NULL || block + size + WASTES > (uintptr_t)end) {
        size_t length = size + WASTES + alignment + CHUNK;
        next = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        end = next + length;
        block = ((uintptr_t)next + UNIT + alignment - 1) & ~(uintptr_t)(alignment - 1);
    }
    next = (char *)block + size + WASTES;
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    ((size_t *)block)[-1] = size;
    for (size_t at = 0; at < WASTES; at += 4096)
        ((volatile char *)block)[size + at] = 1;
    return (void *)block;
}
void *malloc(size_t size) {
    trait();
    return memalign(UNIT, size);
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }
void *realloc(void *old, size_t size) {
    void *new = malloc(size);
    size_t held = malloc_usable_size(old);
    return old ? memcpy(new, old, held < size ? held : size) : new;
}
void free(void *block) { (void)block; }
#endif
#ifndef NO_ALIGNED
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return 0;
}
#endif
#ifdef TALKS
__attribute__((constructor)) static void talk(void) { (void)!write(1, "fake\\n", 5); }
#endif
bool fake_says_yes(void) { return true; }
bool fake_says_no(void) { return false; }
"""


def compile_fake(target: Path, *traits: str) -> Path:
    return compile_c(_SOURCE, target, *(f"-D{trait}" for trait in traits), "-O1", *A_LIBRARY)


def cache_fake(folder: Path, name: str, *traits: str, version: str = "1.0") -> None:
    """Puts a fake into the cache that XDG_CACHE_HOME names, as if it were the peer `name`."""
    library = compile_fake(folder / f"lib{name}.so", *traits)
    store(
        Manifest(
            name=name,
            title=f"fake {name}",
            version=version,
            library=library.name,
            origin="made by a test",
            verified="not at all",
        ),
        library,
    )
