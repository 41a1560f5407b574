/* Blocks above the slab lanes: large (a run of slabs in one superslab) and huge (a run of superslabs).
 *
 * Promises that a block starts on a slab, that its usable size is the request rounded up to pages, and
 * that realloc keeps it in place or moves its pages where it can. Each call takes the arena's lock
 * once, but for runs that the heap keeps (runs.h). Relies on arena and page map.
 */
#ifndef HAKMEM_HEAP_LARGE_H
#define HAKMEM_HEAP_LARGE_H

#include "arena/arena.h"
#include "heap/heap.h"
#include "os/os.h"

/* Usable bytes of a block for `size`. */
static inline size_t large_span(size_t size) {
    return round_up(max_size(size, 1), OS_PAGE_BYTES);
}

/* Slabs of a block of the large lane of so many usable bytes. */
static inline unsigned large_slabs(size_t span) {
    return (unsigned)(round_up(span, SLAB_BYTES) >> SLAB_SHIFT);
}

/* `heap` counts and may be NULL. `alignment` is a power of two, `size` at most PTRDIFF_MAX. NULL if there is
 * no memory. */
void *large_allocate(struct heap *heap, size_t size, size_t alignment, struct zeros *zeros);

/* `p` has a page-map word of a large or huge block. Abort on misuse; `action` begins what is said. */
void large_free(struct heap *heap, void *p);
size_t large_usable_size(const char *action, const void *p);

/* Whether the profile knows the block. */
bool large_is_sampled(const void *p);
void large_set_sampled(void *p, bool sampled);

/* The same block with room for `size`, in place or with its pages moved; NULL if it must be copied, as
 * to another lane. */
void *large_resize(struct heap *heap, void *p, size_t size);

/* Abort with what can be said of a block of these lanes, freed or not, and of a pointer that lies in a region
 * but where no block begins. */
_Noreturn void large_report_misuse(const char *kind, const void *p);
_Noreturn void large_report_stray(const char *action, const void *p);

/* The header of the block at `p`, which has its page-map word; `action` begins what is said if it is none. */
static inline struct slab *large_head(const char *action, const void *p) {
    struct slab *head = arena_header((uintptr_t)p);
    /* relaxed: as in large_free */
    bool is_block = ((uintptr_t)p & (SLAB_BYTES - 1)) == 0 &&
                    atomic_load_explicit(&head->state, memory_order_relaxed) == SLAB_LARGE;
    if (UNLIKELY(!is_block)) {
        large_report_stray(action, p);
    }
    return head;
}

#endif
