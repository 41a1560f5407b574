/* madvise, by which a program may ask for huge pages in a block of its own.
 *
 * What it asked must end with the block, or what comes to lie there next would be resident for nothing. To
 * end it takes a system call for each huge block that is freed, half of the time of one of which little is
 * used: so that is done only in programs that have ever asked. (By another way than this call they do not.)
 */
#include "arena/huge_pages.h"
#include "base/bits.h"
#include "hakmem.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(HAKMEM_STANDARD_NAMES) && !defined(HAKMEM_STATIC)

HAK_EXPORT int madvise(void *address, size_t bytes, int advice) {
    if (advice == MADV_HUGEPAGE) {
        huge_pages_note_program_asks();
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

#endif
