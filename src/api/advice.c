/* madvise, by which a program may ask for huge pages in a block of its own.
 *
 * What it asked must end with the block, or what comes to lie there next would be resident for nothing. To
 * end it takes a system call for each huge block that is freed, half of the time of one of which little is
 * used: so that is done only in programs that have ever asked. What is asked in another way (process_madvise,
 * a system call of the program's own, libc's madvise looked up by dlsym) is not seen and stays. Where calls
 * of madvise do not come here at all, which start.c sees, the program is taken to ask.
 *
 * A block that is shorter than a huge page can only share one, with whatever comes to lie beside it: there,
 * advice is not passed on.
 */
#include "api/advice.h"

#include "api/names.h"
#include "arena/huge_pages.h"
#include "arena/region.h"
#include "arena/region_index.h"
#include "arena/slab_header.h"
#include "base/bits.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAKMEM_SHARED

/* Whether a huge page may lie at `address`: not where it is in a run that is shorter than one. */
static COLD bool may_be_huge(uintptr_t address) {
    const struct region *r = region_of_any(address);
    size_t index = r == NULL ? 0 : region_slab_index(r, address);
    for (size_t i = 0; r != NULL && i <= index % SLABS_PER_SUPERSLAB; i++) {
        const struct slab *slab = region_slab(r, index - i);
        /* relaxed: the caller has the block, and it is just about advice */
        if (atomic_load_explicit(&slab->state, memory_order_relaxed) != SLAB_FREE) {
            return slab->run_slabs <= i || slab->run_slabs == SLABS_PER_SUPERSLAB;
        }
    }
    return true; /* in no region; or in a huge run, whose header is at the start of its first superslab */
}

/* What to tell the kernel of a program that asks for huge pages from `address` on. */
static COLD int note_asking(uintptr_t address) {
    if (!may_be_huge(address)) {
        return MADV_NORMAL; /* of which the kernel checks as much, and does nothing */
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
