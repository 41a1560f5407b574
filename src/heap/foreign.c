#define _GNU_SOURCE
#include "heap/foreign.h"

#include "arena/stray.h"
#include "base/bits.h"
#include "heap/large.h"
#include "os/maps.h"
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
/* The memory of arenas beside the main one begins on multiples of this, and each piece of it with where the
 * arena is and how long the piece is ("heap_info"). */
#define LIBC_PIECE_BYTES ((uintptr_t)64 << 20)
#define LIBC_PIECE_BYTES_HUGE_PAGES ((uintptr_t)8 << 20) /* with glibc.malloc.hugetlb=2 */
struct libc_piece {
    uintptr_t arena;
    uintptr_t piece_before;
    size_t bytes;
};

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

/* Whether the system lets memory be read that may not be there. */
static bool may_peek(void) {
    char known = 0;
    char read;
    uintptr_t at = (uintptr_t)&known;
    return os_peek(&read, &at, 1, sizeof read);
}

/* Copies what may be a part of a block of libc's, or stand beside one: 16 bytes at a multiple of 16, or as
 * much more as lies in the same page. OS_NO where no block of libc's can be, OS_UNKNOWN where the system does
 * not say what is there. */
static enum os_answer copy(void *to, uintptr_t from, size_t bytes) {
    struct maps_area area;
    enum os_answer mapped = maps_find(from, &area);
    if (mapped == OS_NO) {
        return OS_NO;
    }
    if (mapped == OS_UNKNOWN) {
        return os_peek(to, &from, 1, bytes) ? OS_YES : may_peek() ? OS_NO : OS_UNKNOWN;
    }
    if (!area.writable || area.stack || !(area.anonymous || area.break_heap)) {
        return OS_NO;
    }
    memcpy(to, (const void *)from, bytes);
    return OS_YES;
}

/* Whether a chunk of `size` at `start` may be one of an arena beside the main one, whose memory is in pieces
 * that begin on multiples of `piece_bytes`: they name the arena, and the first of them holds it. */
static enum os_answer is_in_arena_of(uintptr_t piece_bytes, uintptr_t start, size_t size) {
    struct libc_piece piece;
    struct libc_piece first;
    uintptr_t at = round_down(start, piece_bytes);
    enum os_answer answer = copy(&piece, at, sizeof piece);
    if (answer != OS_YES) {
        return answer;
    }
    if (piece.bytes > piece_bytes || start - at > piece.bytes || size > piece.bytes - (start - at)) {
        return OS_NO;
    }
    answer = copy(&first, round_down(piece.arena, piece_bytes), sizeof first);
    return answer == OS_YES && first.arena != piece.arena ? OS_NO : answer;
}

static enum os_answer is_in_arena(uintptr_t start, size_t size) {
    enum os_answer answer = is_in_arena_of(LIBC_PIECE_BYTES, start, size);
    return answer != OS_NO ? answer : is_in_arena_of(LIBC_PIECE_BYTES_HUGE_PAGES, start, size);
}

/* Whether the chunk of `p` may be one that libc has handed out. */
static enum os_answer may_be_of_libc(uintptr_t p) {
    struct libc_chunk chunk;
    struct libc_chunk next;
    uintptr_t start = p - sizeof chunk;
    enum os_answer answer = p % 16 == 0 ? copy(&chunk, start, sizeof chunk) : OS_NO;
    if (answer != OS_YES) {
        return answer;
    }
    size_t size = chunk.size_and_flags & ~(size_t)CHUNK_FLAGS;
    if (size < 2 * sizeof chunk || size % 16 != 0) {
        return OS_NO;
    }
    if ((chunk.size_and_flags & CHUNK_MAPPED) != 0) {
        return (start - chunk.previous_size) % OS_PAGE_BYTES == 0 &&
                       (chunk.previous_size + size) % OS_PAGE_BYTES == 0
                   ? OS_YES
                   : OS_NO;
    }
    if ((chunk.size_and_flags & CHUNK_OTHER_ARENA) != 0) {
        return is_in_arena(start, size);
    }
    /* The main arena: grown by brk, or by mmap where that failed. The next chunk says that this one is in
     * use. */
    answer = copy(&next, start + size, sizeof next);
    return answer == OS_YES && (next.size_and_flags & CHUNK_PREVIOUS_IN_USE) == 0 ? OS_NO : answer;
}

/* Aborts if no block of libc's can be at `p`, with a message that `action` begins. */
static void require_libc(const void *p, const char *action) {
    /* Where nobody knows, libc's own checks are better than ending a program that is right. */
    if (foreign_libc_present() && may_be_of_libc((uintptr_t)p) != OS_NO) {
        return;
    }
    if (stray_has_ended((uintptr_t)p)) {
        large_report_gone(action, p);
    }
    report_misuse(&(struct misuse){
        .action = action, .detail = "neither a block of HAKMEM nor of libc", .pointer = p, .lane = "none"});
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
        require_libc(p, "invalid free");
        report_fallback(FALLBACK_FOREIGN_FREE, 0);
    }
    __libc_free(p);
    errno = saved_errno;
}

COLD void *foreign_realloc(void *p, size_t size, bool trusted) {
    if (!trusted) {
        require_libc(p, "invalid realloc");
        report_fallback(FALLBACK_FOREIGN_REALLOC, size);
    }
    return __libc_realloc(p, size);
}

COLD size_t foreign_usable_size(const void *p, bool trusted) {
    if (!trusted) {
        require_libc(p, "invalid usable size");
        report_fallback(FALLBACK_FOREIGN_SIZE, 0);
    }
    struct libc_chunk chunk = chunk_of(p);
    return chunk_usable(&chunk);
}
