/* Pages ahead of use: the kernel gives a run that will be filled all of its pages by one call, which saves
 * two fifths of what as many traps take.
 *
 * That a class of small blocks fills its runs shows in how many new ones it gets in a row. Larger blocks than
 * a page may never be touched throughout, so that earlier ones have to tell: a run that was clean when it was
 * taken, and got no pages ahead of use, is looked at when the next one is wanted. Two that were filled serve
 * for two more runs, each further one for twice as many, up to eight.
 *
 * Promises that a program which has little in use pays for no page that it does not touch, and that blocks
 * which were never handed out are resident ahead of use only as a small part of what may be free. The owner's
 * alone. Relies on fresh, the arena and os.
 */
#ifndef HAKMEM_HEAP_AHEAD_H
#define HAKMEM_HEAP_AHEAD_H

#include "arena/bound.h"
#include "arena/run.h"
#include "heap/heap.h"

/* A class that got so many new slabs in a row, and no used block in between, is growing: the next ones are
 * sure to be filled. */
#define FRESH_BEFORE_FILLED 4

/* As ahead_use, for a class of blocks that are larger than a page. */
enum arena_use ahead_use_of_larger(struct heap *heap, unsigned size_class);

/* What is known of the next run of the class: ARENA_USE_UNKNOWN, or that it will be filled. Cost: a system
 * call for some of the runs of larger blocks. */
static inline enum arena_use ahead_use(struct heap *heap, unsigned size_class) {
    if (size_classes[size_class].bytes <= OS_PAGE_BYTES) {
        bool grows = heap->bins[size_class].fresh >= FRESH_BEFORE_FILLED;
        return grows ? ARENA_FILLS_SLABS : ARENA_USE_UNKNOWN;
    }
    return arena_is_large() ? ahead_use_of_larger(heap, size_class) : ARENA_USE_UNKNOWN;
}

/* `slab` has just been taken for a run of the heap's, and is clean: gives it its pages if it will be
 * `filled`, or has it tell. True if it is resident now. Cost: a system call. */
bool ahead_of_run(struct heap *heap, const struct slab *slab, enum arena_use use);

/* `bytes` of the block at `to` are about to be written, by a thread that has just got it. Gives it these
 * pages by one call if it may have none yet. Cost: a few instructions, or a system call, as
 * often as a clean run has blocks. */
void ahead_of_copy(const void *to, size_t bytes);
/* Where fewer bytes are copied, traps cost less than to find that out. */
#define AHEAD_OF_COPY_LEAST_BYTES ((size_t)12 << 10)

#endif
