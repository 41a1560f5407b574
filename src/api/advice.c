/* madvise, by which a program may ask for huge pages in a block of its own.
 *
 * What it asked must end with the block, or what comes to lie there next would be resident for nothing. To
 * end it takes a system call for each huge block that is freed, half of the time of one of which little is
 * used: so that is done only in programs that have ever asked. And the block is told, because of the huge
 * pages that it leaves no part goes back to the machine before they are split (arena/dense.h). What is asked
 * in another way (process_madvise, a system call of the program's own, libc's madvise looked up by dlsym) is
 * not seen and stays. Where calls of madvise do not come here at all, which start.c sees, the program is
 * taken to ask.
 *
 * A block that is shorter than a huge page can only share one, with whatever comes to lie beside it: there,
 * advice is not passed on.
 */
#include "api/advice.h"

#include "api/names.h"
#include "arena/huge_pages.h"
#include "arena/region.h"
#include "arena/region_index.h"
#include "arena/run.h"
#include "base/bits.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAKMEM_SHARED

/* How far back the head of a run is looked for: a program may ask for each part of a very large block. */
#define SUPERSLABS_LOOKED_AT ((size_t)1024)

/* The last run that begins at slab `index` or before it; NULL if it is too far away. */
static COLD struct slab *run_before(const struct region *r, size_t index) {
    size_t least = index - min_size(index, SUPERSLABS_LOOKED_AT * SLABS_PER_SUPERSLAB);
    for (size_t i = index; i >= least; i -= i % SLABS_PER_SUPERSLAB == 0 ? SLABS_PER_SUPERSLAB : 1) {
        struct slab *slab = region_slab(r, i);
        /* relaxed: the caller has the block */
        if (atomic_load_explicit(&slab->state, memory_order_relaxed) != SLAB_FREE) {
            return slab;
        }
        if (i < SLABS_PER_SUPERSLAB) {
            break; /* no huge run begins in a region's first superslab, where its headers are */
        }
    }
    return NULL;
}

/* What to tell the kernel of a program that asks for huge pages from `address` on. */
static COLD int note_asking(uintptr_t address) {
    const struct region *r = region_of_any(address);
    size_t index = r == NULL ? 0 : region_slab_index(r, address);
    struct slab *slab = r == NULL ? NULL : run_before(r, index);
    if (slab != NULL && index - region_slab_number(r, slab) < arena_run_slabs(slab)) {
        /* relaxed: as above */
        uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
        if (state != SLAB_LARGE || arena_run_slabs(slab) < SLABS_PER_SUPERSLAB) {
            return MADV_NORMAL; /* of which the kernel checks as much, and does nothing */
        }
        huge_pages_note_asked(slab);
    }
    huge_pages_note_program_asks();
    return MADV_HUGEPAGE;
}

int advice_take(void *address, size_t bytes, int advice) {
    advice = UNLIKELY(advice == MADV_HUGEPAGE) ? note_asking((uintptr_t)address) : advice;
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

ALSO_NAMED(madvise, advice_take, int, (void *address, size_t bytes, int advice))

#endif
