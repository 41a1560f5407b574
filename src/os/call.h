/* What all calls into the kernel have in common: each is counted, tests can have it fail, and those that free
 * may make keep errno.
 *
 * Promises that a build without HAKMEM_FAULTS has no trace of the faults. For the files of this layer. Relies
 * on os/fault.
 */
#ifndef HAKMEM_OS_CALL_H
#define HAKMEM_OS_CALL_H

#include "base/bits.h"
#include "os/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* relaxed everywhere: a statistic, it orders nothing */
extern INTERNAL _Atomic uint64_t os_calls;

static inline void count_call(void) {
    atomic_fetch_add_explicit(&os_calls, 1, memory_order_relaxed);
}

/* fault_tell: tells a test that listens of the call that comes next. fault_due: does so, too, and says
 * whether a test wants that call, of this kind, to fail; if so, errno is ENOMEM. */
#ifdef HAKMEM_FAULTS
void fault_tell(void);
bool fault_due(enum os_fault kind);
#else
static inline void fault_tell(void) {
}
static inline bool fault_due(enum os_fault kind) {
    (void)kind;
    return false;
}
#endif

/* Evaluates `call`, which free() may make, and restores errno; its value is the result of the call. */
#define KEEPING_ERRNO(type, call)                                                                            \
    __extension__({                                                                                          \
        int saved_errno = errno;                                                                             \
        type result = (call);                                                                                \
        errno = saved_errno;                                                                                 \
        result;                                                                                              \
    })

/* Maps private anonymous memory, as mmap with these arguments; NULL with errno if it fails. */
void *os_map(void *hint, size_t bytes, int protection, int extra_flags);

#endif
