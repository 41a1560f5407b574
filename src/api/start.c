/* What the options ask for at the start of the process and at its end. */
#include "api/advice.h"
#include "api/sandbox.h"
#include "arena/huge_pages.h"
#include "base/bits.h"
#include "observe/stats.h"
#include "os/purge.h"
#include "profile/files.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The library itself was started by an earlier constructor (heap/runtime.c). */
__attribute__((constructor)) OFTEN static void at_load(void) {
    int saved_errno = errno;
#ifdef HAKMEM_SHARED
    if (madvise != advice_take) { /* the program, or what is loaded before, has its own */
        huge_pages_note_program_asks();
    }
#endif
#if SANDBOX_GIVES_NOTICE
    if ((uintptr_t)prctl == (uintptr_t)sandbox_prctl && (uintptr_t)syscall == (uintptr_t)sandbox_syscall) {
        os_purge_trust_notice();
    }
#endif
    stats_at_start();
    files_at_start();
    errno = saved_errno; /* 0 when main begins, as C demands */
}

__attribute__((destructor)) OFTEN static void at_exit(void) {
    files_at_exit();
    stats_at_exit();
}
