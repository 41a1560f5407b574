/* madvise, by which a program may ask for huge pages in a block of its own.
 *
 * What it asked must end with the block, or what comes to lie there next would be resident for nothing; and
 * of the huge pages that it leaves, no part goes back to the machine before they are split (arena/dense.h).
 * So the block is told. What is asked in another way (process_madvise, a system call of the program's own,
 * libc's madvise looked up by dlsym) is not seen and stays. Where calls of madvise do not come here at all,
 * which start.c sees, the program is taken to ask in each block: to end that takes a system call for each
 * huge block that is freed, half of the time of one of which little is used.
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

/* The head of the run that slab `index` is of, if that has a block as long as a huge page; NULL otherwise. */
static COLD struct slab *head_of_long_run(const struct region *r, size_t index) {
    for (size_t i = index;; i -= i % SLABS_PER_SUPERSLAB == 0 ? SLABS_PER_SUPERSLAB : 1) {
        struct slab *slab = region_slab(r, i);
        /* relaxed: the caller has the block */
        uint8_t state = atomic_load_explicit(&slab->state, memory_order_relaxed);
        if (state != SLAB_FREE) {
            size_t slabs = arena_run_slabs(slab);
            return state == SLAB_LARGE && slabs >= SLABS_PER_SUPERSLAB && index - i < slabs ? slab : NULL;
        }
        if (i < SLABS_PER_SUPERSLAB) {
            return NULL; /* none of a huge run lies in a region's first superslab, where its headers are */
        }
    }
}

/* What to tell the kernel of a program that asks for huge pages from `address` on. */
static COLD int note_asking(uintptr_t address) {
    const struct region *r = region_of_any(address);
    if (r == NULL) {
        return MADV_HUGEPAGE; /* it is no memory of the library's */
    }
    struct slab *head = head_of_long_run(r, region_slab_index(r, address));
    if (head == NULL) {
        return MADV_NORMAL; /* of which the kernel checks as much, and does nothing */
    }
    huge_pages_note_asked(head);
    return MADV_HUGEPAGE;
}

int advice_take(void *address, size_t bytes, int advice) {
    advice = UNLIKELY(advice == MADV_HUGEPAGE) ? note_asking((uintptr_t)address) : advice;
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

ALSO_NAMED(madvise, advice_take, int, (void *address, size_t bytes, int advice))

#endif
