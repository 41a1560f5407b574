/* The operating system: every system call of the library is made here.
 *
 * Promises that each call either does what its name says or reports failure; none aborts, none
 * allocates through malloc. Calls that free() may make keep errno.
 * Relies on Linux >= 4.17 (MAP_FIXED_NOREPLACE is verified, not assumed).
 */
#ifndef HAKMEM_OS_OS_H
#define HAKMEM_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_PAGE_BYTES 4096

/* Address space without memory behind it, aligned; NULL if none is to be had. Counts against
 * RLIMIT_AS, not against the commit limit. */
void *os_reserve(size_t bytes, size_t alignment);
/* Address space that reads as zeros without costing memory. */
void *os_reserve_zeros(size_t bytes);
/* Ends a reservation. */
void os_release(void *address, size_t bytes);

/* Makes reserved pages usable; they read as zero until written. */
bool os_commit(void *address, size_t bytes);
/* Gives the pages back: they stay usable and read as zero. */
bool os_purge(void *address, size_t bytes);
/* The same, by a mapping of its own, which ends what moving pages did to the kernel's bookkeeping. */
bool os_renew(void *address, size_t bytes);
/* Moves the pages at `from` to `to` (both committed, no overlap) without copying; `from` stays
 * committed and reads as zero. False where the kernel cannot: nothing has changed then. */
bool os_move_pages(void *from, void *to, size_t bytes);

/* Sleeps while *word == value (may wake early); wakes one or all sleepers. */
void os_wait(_Atomic uint32_t *word, uint32_t value);
void os_wake(_Atomic uint32_t *word, bool all);

/* Resident bytes of the process as the kernel counts them; 0 if unknown. */
size_t os_resident_bytes(void);
/* Calls into the kernel that this layer has made for memory. */
uint64_t os_call_count(void);

void os_write(int fd, const char *bytes, size_t length);
int os_open_for_writing(const char *path); /* truncates; -1 on failure */
/* Another descriptor of the same file, with a high number and closed on exec; -1 on failure. */
int os_duplicate(int fd);
void os_close(int fd);
int os_process_id(void);

/* Value of an environment variable, copied into `buffer`; works before libc has set up `environ`,
 * too. NULL if it is not set or longer than the buffer. */
const char *os_environment(const char *name, char *buffer, size_t capacity);

struct os_mapping {
    uintptr_t start, end;
    bool writable;
    bool anonymous; /* neither a file nor a named area */
    bool break_heap; /* the area grown by brk */
    bool stack;
};

/* What is mapped at `address`; false if nothing is. Reads /proc: slow. */
bool os_find_mapping(uintptr_t address, struct os_mapping *out);

#endif
