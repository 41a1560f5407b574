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

/* Slabs of a block of the large lane of `span` usable bytes. */
static inline unsigned large_slabs(size_t span) {
    return (unsigned)(round_up(span, SLAB_BYTES) >> SLAB_SHIFT);
}

/* A block for `size` bytes, at most PTRDIFF_MAX, on a multiple of `alignment`, a power of two; one that
 * `grows` rather where it can go on growing. NULL if there is no memory. `heap`, here and below, is the
 * calling thread's or NULL. `*zeros` gets the part of the block that reads as zero. */
void *large_allocate(struct heap *heap, size_t size, size_t alignment, bool grows, struct zeros *zeros);

/* Frees the block at `p`, whose page-map `word` is that of a large or huge block; aborts on misuse. */
void large_free(struct heap *heap, void *p, uint32_t word);
/* Usable bytes of the block at `p`, which is large or huge; aborts on misuse, with a message that `action`
 * begins. */
size_t large_usable_size(const char *action, const void *p);

/* Whether the profile knows the block, which is large or huge. */
bool large_is_sampled(const void *p);
void large_set_sampled(void *p, bool sampled);

/* Whether the block, which is large or huge, has been resized, or took the place of one that was. */
bool large_is_resized(const void *p);
void large_note_resized(void *p);

/* Gives the block at `p`, whose page-map word is `word`, room for `size` bytes, in place or with its pages
 * moved, and returns where it is; NULL if it must be copied, as to another lane. */
void *large_resize(struct heap *heap, void *p, size_t size, uint32_t word);

/* Aborts with what can be said of a block of these lanes, freed or not; `kind` begins the message. */
_Noreturn void large_report_misuse(const char *kind, const void *p);
/* Aborts with what can be said of a pointer into a region where no block begins; `action` begins the
 * message. */
_Noreturn void large_report_stray(const char *action, const void *p);
/* The same of a pointer to a block that was freed, with its region perhaps. */
_Noreturn void large_report_gone(const char *action, const void *p);

/* Takes the page-map word of the huge block at `p` from it, before anything else of the block is read: its
 * region may end with it. Aborts if another thread has, with a message that `action` begins. */
void large_take_word(const char *action, const void *p);

/* The header of the block at `p`, whose page-map word is that of a large or huge block. Aborts if no block
 * begins there, with a message that `action` begins. */
static inline struct slab *large_head(const char *action, const void *p) {
    const struct region *region = region_of((uintptr_t)p);
    if (UNLIKELY(region == NULL)) {
        large_report_gone(action, p);
    }
    struct slab *head = region_slab(region, region_slab_index(region, (uintptr_t)p));
    /* relaxed: whoever holds the block got it, and with it the state, through the program's own
     * synchronisation */
    bool is_block = ((uintptr_t)p & (SLAB_BYTES - 1)) == 0 &&
                    atomic_load_explicit(&head->state, memory_order_relaxed) == SLAB_LARGE;
    if (UNLIKELY(!is_block)) {
        large_report_stray(action, p);
    }
    return head;
}

#endif
