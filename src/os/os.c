#define _GNU_SOURCE
#include "os/os.h"

#include "base/bits.h"
#include "os/call.h"
#include "os/clock.h"
#include "os/sanitized.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* Where the last reservation begins: below it there is room as a rule, since the kernel fills the address
 * space downwards. relaxed everywhere: a hint */
static _Atomic uintptr_t reserved_last;

uint64_t os_call_count(void) {
    return atomic_load_explicit(&os_calls, memory_order_relaxed);
}

void os_release(void *address, size_t bytes) {
    uintptr_t start = (uintptr_t)address;
    /* What was reserved last leaves its place to the next: otherwise reservations would wander downwards, and
     * more and more of the page map would have to be made usable. */
    atomic_compare_exchange_strong_explicit(&reserved_last, &start, start + bytes, memory_order_relaxed,
                                            memory_order_relaxed);
    count_call();
    fault_tell();
    KEEPING_ERRNO(int, munmap(address, bytes));
}

/* ThreadSanitizer replaces an address that it does not like by NULL and leaves the flag, by which root then
 * gets page 0; without the flag, the address is a hint. */
#define AT_THIS_PLACE (SANITIZED ? 0 : MAP_FIXED_NOREPLACE)

/* Maps address space without memory behind it at `place`; NULL if that is not to be had, with errno ENOMEM if
 * there is no room at all. */
static char *reserve_at(char *place, size_t bytes) {
    char *given = os_map(place, bytes, PROT_NONE, AT_THIS_PLACE);
    if (given == NULL || given == place) {
        return given;
    }
    os_release(given, bytes); /* an old kernel took the address for a hint */
    return NULL;
}

/* Below this no place is asked for: page 0 cannot be used, and the program's mappings that must
 * lie low need room. */
#define LOWEST_ASKED_FOR ((uintptr_t)4 << 30)

/* Whether a range is part of core files. Debuggers would write address space that cannot be read, or reads as
 * zeros, into a core file byte for byte. */
static void set_dumped(void *address, size_t bytes, bool dumped) {
    count_call();
    KEEPING_ERRNO(int, madvise(address, bytes, dumped ? MADV_DODUMP : MADV_DONTDUMP));
}

static void *reserve(size_t bytes, size_t alignment) {
    uintptr_t last = atomic_load_explicit(&reserved_last, memory_order_relaxed);
    if (alignment > OS_PAGE_BYTES && last > LOWEST_ASKED_FOR + bytes + alignment) {
        char *given = reserve_at((char *)round_down(last - bytes, alignment), bytes);
        if (given != NULL) {
            atomic_store_explicit(&reserved_last, (uintptr_t)given, memory_order_relaxed);
            return given;
        }
    }
    char *p = os_map(NULL, bytes, PROT_NONE, 0);
    if (p == NULL || ((uintptr_t)p & (alignment - 1)) == 0) {
        return p;
    }
    /* The kernel fills the address space downwards as a rule, or upwards, so that the next aligned place
     * below is free, or the one above; asking for them needs no slack, which matters under RLIMIT_AS. */
    char *below = (char *)round_down((uintptr_t)p, alignment);
    os_release(p, bytes);
    p = reserve_at(below, bytes);
    p = p != NULL ? p : reserve_at(below + alignment, bytes);
    if (p != NULL) {
        return p;
    }
    char *wide = os_map(NULL, bytes + alignment, PROT_NONE, 0);
    if (wide == NULL) {
        return NULL;
    }
    char *start = (char *)round_up((uintptr_t)wide, alignment);
    if (start > wide) {
        os_release(wide, (size_t)(start - wide));
    }
    if (start < wide + alignment) {
        os_release(start + bytes, (size_t)(wide + alignment - start));
    }
    return start;
}

void *os_reserve(size_t bytes, size_t alignment) {
    int saved_errno = errno;
    void *p = fault_due(OS_FAULT_RESERVE) ? NULL : reserve(bytes, alignment);
    if (p != NULL) {
        errno = saved_errno; /* some places may have been occupied */
        set_dumped(p, bytes, false);
    }
    return p;
}

COLD enum os_placed os_reserve_at(void *place, size_t bytes) {
    if (fault_due(OS_FAULT_RESERVE)) {
        return OS_NO_ROOM;
    }
    int saved_errno = errno;
    errno = 0;
    bool placed = reserve_at(place, bytes) != NULL;
    bool no_room = errno == ENOMEM;
    errno = saved_errno;
    if (!placed) {
        return no_room ? OS_NO_ROOM : OS_OCCUPIED;
    }
    set_dumped(place, bytes, false);
    return OS_PLACED;
}

void *os_reserve_zeros(size_t bytes) {
    void *zeros = fault_due(OS_FAULT_RESERVE) ? NULL : os_map(NULL, bytes, PROT_READ, 0);
    if (zeros != NULL) {
        set_dumped(zeros, bytes, false);
    }
    atomic_store_explicit(&reserved_last, (uintptr_t)zeros, memory_order_relaxed);
    return zeros;
}

COLD bool os_could_commit(size_t bytes) {
    count_call();
    void *p =
        KEEPING_ERRNO(void *, mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (p == MAP_FAILED) {
        return false;
    }
    os_release(p, bytes);
    return true;
}

bool os_commit(void *address, size_t bytes) {
    if (KEEPING_ERRNO(bool, fault_due(OS_FAULT_COMMIT))) {
        return false;
    }
    count_call();
    if (KEEPING_ERRNO(int, mprotect(address, bytes, PROT_READ | PROT_WRITE)) != 0) {
        return false;
    }
    set_dumped(address, bytes, true);
    return true;
}

COLD bool os_commit_locked(void *address, size_t bytes) {
    if (!os_commit(address, bytes)) {
        return false;
    }
    count_call();
    if (KEEPING_ERRNO(long, syscall(SYS_mlock, address, bytes)) == 0) {
        return true;
    }
    KEEPING_ERRNO(int, mprotect(address, bytes, PROT_NONE)); /* or it would count as the program's data */
    return false;
}

bool os_populate(void *address, size_t bytes) {
    count_call();
    return KEEPING_ERRNO(int, madvise(address, bytes, MADV_POPULATE_WRITE)) == 0;
}

bool os_ask_for_huge_pages(void *address, size_t bytes, bool wanted) {
    count_call();
    /* Not by madvise, which is the library's own and takes this for the program's wish (api/advice.c). */
    return KEEPING_ERRNO(long,
                         syscall(SYS_madvise, address, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE)) == 0;
}

#ifdef HAKMEM_FAULTS
static _Atomic uint64_t huge_page_ns; /* relaxed everywhere: a test sets it before it looks what follows */

void os_fault_set_huge_page_ns(uint64_t ns) {
    atomic_store_explicit(&huge_page_ns, ns, memory_order_relaxed);
}

static uint64_t time_of_huge_page(uint64_t measured) {
    (void)measured;
    return atomic_load_explicit(&huge_page_ns, memory_order_relaxed);
}
#else
static inline uint64_t time_of_huge_page(uint64_t measured) {
    return measured;
}
#endif

COLD uint64_t os_touch(void *address) {
    uint64_t begun = os_thread_ns();
    *(volatile unsigned char *)address = 0;
    return time_of_huge_page(os_thread_ns() - begun);
}

/* One byte for each page from `address` on: 1 if it is resident. False if the kernel does not tell. */
static bool which_resident(const void *address, size_t pages, unsigned char *out) {
    count_call();
    fault_tell();
    if (KEEPING_ERRNO(int, mincore((void *)(uintptr_t)address, pages * OS_PAGE_BYTES, out)) != 0) {
        return false;
    }
    for (size_t i = 0; i < pages; i++) {
        out[i] &= 1; /* the other bits are reserved */
    }
    return true;
}

COLD bool os_may_be_resident(const void *address) {
    unsigned char resident = 1;
    return !which_resident(address, 1, &resident) || resident != 0;
}

COLD bool os_back_by_huge_page(void *address, uint64_t *took_ns) {
    *took_ns = 0;
    count_call();
    /* 0 bytes: does the kernel know the advice? */
    bool may_split = KEEPING_ERRNO(int, madvise(address, 0, MADV_COLD)) == 0;
    if (!may_split || !os_ask_for_huge_pages(address, OS_HUGE_PAGE_BYTES, true)) {
        return false;
    }
    *took_ns = os_touch(address);
    os_ask_for_huge_pages(address, OS_HUGE_PAGE_BYTES, false);
    /* Where the kernel does not tell, all counts as resident: too much rather than too little. */
    return os_may_be_resident((char *)address + OS_HUGE_PAGE_BYTES - OS_PAGE_BYTES);
}

COLD void os_split_huge_page(void *part, size_t bytes) {
    /* The kernel splits a huge page when it is told that a part of it is cold. */
    count_call();
    (void)KEEPING_ERRNO(int, madvise(part, bytes, MADV_COLD));
}

COLD size_t os_missing_pages(const void *address, size_t bytes) {
    unsigned char pages[512];
    size_t missing = 0;
    for (size_t at = 0; at < bytes; at += sizeof pages * OS_PAGE_BYTES) {
        size_t count = min_size((bytes - at) / OS_PAGE_BYTES, sizeof pages);
        bool told = which_resident((const char *)address + at, count, pages);
        for (size_t i = 0; i < count; i++) {
            missing += !told || pages[i] == 0;
        }
    }
    return missing;
}

COLD bool os_peek(void *to, const uintptr_t *from, size_t count, size_t bytes) {
    struct iovec here = {to, count * bytes};
    struct iovec there[OS_PEEK_MOST];
    for (size_t i = 0; i < count; i++) {
        there[i] = (struct iovec){(void *)from[i], bytes};
    }
    count_call();
    /* The thread's id and not the process's, which names the first thread: that may have ended. 0L and not 0:
     * the last argument lies on the stack, where libc reads a long. */
    return KEEPING_ERRNO(long, syscall(SYS_process_vm_readv, os_thread_id(), &here, 1, there, count, 0L)) ==
           (long)(count * bytes);
}

COLD bool os_purge(void *address, size_t bytes) {
    if (KEEPING_ERRNO(bool, fault_due(OS_FAULT_PURGE))) {
        return false;
    }
    count_call();
    int saved_errno = errno;
    bool done = madvise(address, bytes, MADV_DONTNEED) == 0;
    if (!done && errno == EINVAL) { /* the program has locked a part of it */
        count_call();
        done = madvise(address, bytes, MADV_DONTNEED_LOCKED) == 0;
    }
    errno = saved_errno;
    return done;
}

long os_advise_many(int process, const struct iovec *ranges, size_t count) {
    if (fault_due(OS_FAULT_PURGE)) {
        return -1;
    }
    count_call();
    /* MADV_DONTNEED_LOCKED takes locked pages and others: kernels that let a process
     * advise itself know it. */
    return syscall(SYS_process_madvise, process, ranges, count, MADV_DONTNEED_LOCKED, 0);
}

COLD bool os_renew(void *address, size_t bytes) {
    if (KEEPING_ERRNO(bool, fault_due(OS_FAULT_PURGE))) {
        return false;
    }
    /* A kernel that fails the first call may have unmapped what was there; the second maps it again. */
    return KEEPING_ERRNO(bool,
                         os_map(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == address ||
                             os_map(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE) == address);
}

void os_sleep_ms(uint64_t ms) {
    struct timespec time = os_timespec_of_ms(ms);
    /* Not libc's, which is a cancellation point. */
    KEEPING_ERRNO(long, syscall(SYS_nanosleep, &time, NULL));
}

bool os_pages_are_known(void) {
    return getauxval(AT_PAGESZ) == OS_PAGE_BYTES;
}

size_t os_address_space_limit(void) {
    struct rlimit limit;
    return KEEPING_ERRNO(int, getrlimit(RLIMIT_AS, &limit)) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? limit.rlim_cur
               : SIZE_MAX;
}

void os_close(int fd) {
    syscall(SYS_close, fd);
}

int os_process_id(void) {
    return (int)getpid();
}

int os_thread_id(void) {
    return (int)syscall(SYS_gettid);
}

static int own_process;
/* The thread pointer of the process's first thread, which it has in children, too; 0: unknown; or NO_THREAD,
 * in a child of another one. relaxed everywhere: only the first thread looks for its own there */
static _Atomic uintptr_t first_thread;
#define NO_THREAD ((uintptr_t)1)

static bool first_is_known(void) {
    return atomic_load_explicit(&first_thread, memory_order_relaxed) != 0;
}

void os_note_thread(void) {
    if (!first_is_known() && os_thread_id() == own_process) {
        atomic_store_explicit(&first_thread, (uintptr_t)__builtin_thread_pointer(), memory_order_relaxed);
    }
}

void os_note_process(void) {
    if (own_process != 0 && !first_is_known()) { /* the first thread notes itself before it forks */
        atomic_store_explicit(&first_thread, NO_THREAD, memory_order_relaxed);
    }
    own_process = os_process_id();
    os_note_thread();
}

COLD bool os_is_first_of_its_kin(void) {
    uintptr_t first = atomic_load_explicit(&first_thread, memory_order_relaxed);
    return first == 0 || first == (uintptr_t)__builtin_thread_pointer();
}

bool os_in_own_process(void) { /* every program comes here when it ends */
    return os_process_id() == own_process;
}
