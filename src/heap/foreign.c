#define _GNU_SOURCE
#include "heap/foreign.h"

#include "base/bits.h"
#include "os/os.h"
#include "os/report.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* Weak: absent from a static program, and from other libcs. */
extern __attribute__((weak)) void *__libc_malloc(size_t size);
extern __attribute__((weak)) void *__libc_calloc(size_t count, size_t size);
extern __attribute__((weak)) void *__libc_realloc(void *p, size_t size);
extern __attribute__((weak)) void *__libc_memalign(size_t alignment, size_t size);
extern __attribute__((weak)) void __libc_free(void *p);

/* What glibc keeps in front of each block (malloc/malloc.c, "chunk"): sizes with flags in the low bits. */
struct libc_chunk {
    size_t previous_size;
    size_t size_and_flags;
};
#define CHUNK_PREVIOUS_IN_USE 1u
#define CHUNK_MAPPED 2u
#define CHUNK_OTHER_ARENA 4u
#define CHUNK_FLAGS 7u
/* Arenas beside the main one lie on multiples of this. */
#define LIBC_ARENA_BYTES ((uintptr_t)64 << 20)

bool foreign_libc_present(void) {
    return __libc_malloc != NULL && __libc_free != NULL && __libc_realloc != NULL && __libc_calloc != NULL &&
           __libc_memalign != NULL;
}

static struct libc_chunk chunk_of(const void *p) {
    struct libc_chunk chunk;
    memcpy(&chunk, (const char *)p - sizeof chunk, sizeof chunk);
    return chunk;
}

static size_t chunk_usable(const struct libc_chunk *chunk) {
    size_t size = chunk->size_and_flags & ~(size_t)CHUNK_FLAGS;
    return size - ((chunk->size_and_flags & CHUNK_MAPPED) != 0 ? 2 : 1) * sizeof(size_t);
}

/* Whether blocks of libc's may lie in the mapping around `address`. */
static enum os_answer may_hold_blocks(uintptr_t address, struct os_mapping *mapping) {
    enum os_answer mapped = os_find_mapping(address, mapping);
    bool may = mapped == OS_YES && mapping->writable && !mapping->stack &&
               (mapping->anonymous || mapping->break_heap);
    return mapped == OS_YES && !may ? OS_NO : mapped;
}

static bool looks_like_libc(const void *p) {
    uintptr_t address = (uintptr_t)p;
    struct os_mapping mapping;
    uintptr_t start = address - sizeof(struct libc_chunk);
    enum os_answer may = address % 16 == 0 ? may_hold_blocks(start, &mapping) : OS_NO;
    if (may != OS_YES) {
        return may == OS_UNKNOWN; /* libc's own checks are better than ending a program that is right */
    }
    struct libc_chunk chunk = chunk_of(p);
    size_t size = chunk.size_and_flags & ~(size_t)CHUNK_FLAGS;
    if (size < 2 * sizeof chunk || size % 16 != 0) {
        return false;
    }
    if ((chunk.size_and_flags & CHUNK_MAPPED) != 0) {
        return (start - chunk.previous_size) % OS_PAGE_BYTES == 0 &&
               (chunk.previous_size + size) % OS_PAGE_BYTES == 0;
    }
    /* The program may have made several mappings of one (mlock, madvise): what the block needs besides itself
     * may lie in another. */
    if ((chunk.size_and_flags & CHUNK_OTHER_ARENA) != 0) {
        uintptr_t arena = round_down(address, LIBC_ARENA_BYTES);
        return arena >= mapping.start || may_hold_blocks(arena, &mapping) != OS_NO;
    }
    /* The main arena: grown by brk, or by mmap where that failed. The next chunk says that this one is in
     * use. */
    if (size + sizeof chunk > mapping.end - start &&
        may_hold_blocks(start + size + sizeof chunk - 1, &mapping) == OS_NO) {
        return false;
    }
    return (chunk_of((const char *)p + size).size_and_flags & CHUNK_PREVIOUS_IN_USE) != 0;
}

static void require_libc(const void *p, const char *misuse) {
    if (!foreign_libc_present() || !looks_like_libc(p)) {
        report_misuse(misuse, p, "none", 0, 0);
    }
}

void *foreign_malloc(size_t size) {
    return __libc_malloc(size);
}

void *foreign_calloc(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *foreign_memalign(size_t alignment, size_t size) {
    return __libc_memalign(alignment, size);
}

COLD void foreign_free(void *p, bool trusted) {
    int saved_errno = errno;
    if (!trusted) {
        require_libc(p, "invalid free (neither a block of HAKMEM nor of libc)");
        report_fallback(FALLBACK_FOREIGN_FREE, 0);
    }
    __libc_free(p);
    errno = saved_errno;
}

COLD void *foreign_realloc(void *p, size_t size, bool trusted) {
    if (!trusted) {
        require_libc(p, "invalid realloc (neither a block of HAKMEM nor of libc)");
        report_fallback(FALLBACK_FOREIGN_REALLOC, size);
    }
    return __libc_realloc(p, size);
}

COLD size_t foreign_usable_size(const void *p, bool trusted) {
    if (!trusted) {
        require_libc(p, "invalid usable size (neither a block of HAKMEM nor of libc)");
        report_fallback(FALLBACK_FOREIGN_SIZE, 0);
    }
    struct libc_chunk chunk = chunk_of(p);
    return chunk_usable(&chunk);
}
