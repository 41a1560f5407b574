/* madvise, by which a program may ask for huge pages in a block of its own.
 *
 * What it asked must end with the block, or what comes to lie there next would be resident for nothing. To
 * end it takes a system call for each huge block that is freed, half of the time of one of which little is
 * used: so that is done only in programs that have ever asked. What is asked in another way (process_madvise,
 * a system call of the program's own, libc's madvise looked up by dlsym) is not seen and stays. Where calls
 * of madvise do not come here at all, which start.c sees, the program is taken to ask.
 */
#include "api/advice.h"

#include "api/names.h"
#include "arena/huge_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HAKMEM_SHARED

int advice_take(void *address, size_t bytes, int advice) {
    if (advice == MADV_HUGEPAGE) {
        huge_pages_note_program_asks();
    }
    return (int)syscall(SYS_madvise, address, bytes, advice);
}

ALSO_NAMED(madvise, advice_take, int, (void *address, size_t bytes, int advice))

#endif
