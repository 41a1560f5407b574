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
#define OS_HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Whether the kernel's pages are the ones that everything here is built on. Some of aarch64 have larger ones:
 * to give back a page there gives back its neighbours, too, and what the program has in them. */
bool os_pages_are_known(void);

/* RLIMIT_AS in bytes; SIZE_MAX if there is none. */
size_t os_address_space_limit(void);

/* Address space without memory behind it, aligned; NULL if none is to be had. Counts against
 * RLIMIT_AS, not against the commit limit. Not a part of core files, before os_commit. */
void *os_reserve(size_t bytes, size_t alignment);
/* The same at this place (on a page), if nothing is there. */
enum os_placed { OS_PLACED, OS_OCCUPIED, OS_NO_ROOM };
enum os_placed os_reserve_at(void *place, size_t bytes);
/* Address space that reads as zeros without costing memory; likewise. */
void *os_reserve_zeros(size_t bytes);
/* Ends a reservation. */
void os_release(void *address, size_t bytes);

/* Makes reserved pages usable; they read as zero until written. */
bool os_commit(void *address, size_t bytes);
/* Puts memory behind the pages by one trap instead of one for each. False where the kernel cannot (before
 * 5.14) or will not: they then are faulted in one by one. */
bool os_populate(void *address, size_t bytes);
/* Whether the kernel shall put huge pages behind memory that is touched from now on. False if it has none. */
bool os_ask_for_huge_pages(void *address, size_t bytes, bool wanted);
/* Puts one huge page behind 2 MiB (on a multiple of that) of which no page is resident, and asks for no other
 * there. False if the kernel has none to give, or could not split it: at most the first page then is
 * resident. `took_ns` gets how long the kernel took for it, without what other threads did meanwhile. */
bool os_back_by_huge_page(void *address, uint64_t *took_ns);
/* Writes a zero to memory that reads as zero, and returns the ns that the kernel took to put pages behind it.
 */
uint64_t os_touch(void *address);
/* Makes the huge page that a part of is about to be purged many small ones, or the kernel would keep all of
 * it until memory is short. It does nothing to memory that others share since a fork. */
void os_split_huge_page(void *part, size_t bytes);
/* Whether there is memory behind every page. */
bool os_all_resident(void *address, size_t bytes);
/* One byte for each page from `address` (on a page) on: 1 if it is resident. False if the kernel does not
 * tell. */
bool os_which_resident(const void *address, size_t pages, unsigned char *out);
/* Copies `count` (1..OS_PEEK_MOST) pieces of memory, of `bytes` each, one behind the other. They may be
 * unreadable, or nobody's by now: false if any is. */
#define OS_PEEK_MOST 16
bool os_peek(void *to, const uintptr_t *from, size_t count, size_t bytes);
/* Gives the pages back: they stay usable and read as zero. False if the kernel refuses; those that the
 * program has locked it gives up from 5.18 on, and locks what comes there later. */
bool os_purge(void *address, size_t bytes);
/* The same for many ranges by one call, for purge.c: the bytes that the kernel took, from the first range on,
 * or -1 and errno. */
struct iovec;
long os_advise_many(int process, const struct iovec *ranges, size_t count);
/* The same, by a mapping of its own, which ends what moving pages did to the kernel's bookkeeping. False
 * if the pages are as they were, or gone: os_commit then tells which. */
bool os_renew(void *address, size_t bytes);

/* Sleeps while *word == value (may wake early); wakes up to `most` sleepers. */
void os_wait(_Atomic uint32_t *word, uint32_t value);
void os_wake(_Atomic uint32_t *word, unsigned most);
void os_sleep_ms(uint64_t ms);
/* A clock that only goes forward, good to a few milliseconds and cheap. */
uint64_t os_now_ms(void);
/* The same by a system call, for small programs: libc's function is in pages that they have no other use for,
 * and each one that is mapped brings fifteen more. */
uint64_t os_now_ms_by_call(void);

/* Resident bytes of the process as the kernel counts them; 0 if unknown. */
size_t os_resident_bytes(void);
/* Calls into the kernel that this layer has made for memory. */
uint64_t os_call_count(void);

void os_close(int fd);
int os_process_id(void);
/* Remembers the calling process as the one that all this is about: when the library starts and in a forked
 * child, while there is one thread. */
void os_note_process(void);
/* Whether the caller is in it. A process of another number that runs here was not made by fork: it shares the
 * memory with that one (vfork, clone), or libc does not know of it. */
bool os_in_own_process(void);

/* Tells this layer of the environment before libc knows it. */
void os_set_environment(char **environment);
/* Value of an environment variable, as much of it as `buffer` has room for; works before libc has set up
 * `environ`, too. NULL if it is not set, and in a program that has more rights than whoever started it. */
const char *os_environment(const char *name, char *buffer, size_t capacity);

/* Calls `visit` with each variable's name that begins with `prefix`, unless the program has more rights than
 * whoever started it. False if the environment is not known yet. */
bool os_visit_environment(const char *prefix, void (*visit)(const char *name, size_t length));

struct os_mapping {
    uintptr_t start, end;
    bool writable;
    bool anonymous;  /* neither a file nor a named area */
    bool break_heap; /* the area grown by brk */
    bool stack;
};

enum os_answer { OS_NO, OS_YES, OS_UNKNOWN };

/* What is mapped at `address`: OS_NO if nothing is, OS_UNKNOWN where /proc cannot be read. Slow. */
enum os_answer os_find_mapping(uintptr_t address, struct os_mapping *out);

#endif
