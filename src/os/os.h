/* The operating system: memory, sleep and what process this is. The library makes its system calls in this
 * folder; those that api/ makes are the program's own, which it stands in front of.
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

/* Whether the kernel's pages are of OS_PAGE_BYTES, on which everything here is built. Some kernels of
 * aarch64 have larger ones: to give back 4 KiB there would take its neighbours, too, and what the
 * program has in them. */
bool os_pages_are_known(void);

/* RLIMIT_AS in bytes; SIZE_MAX if there is none. */
size_t os_address_space_limit(void);

/* Address space without memory behind it, aligned; NULL if none is to be had. Counts against
 * RLIMIT_AS, not against the commit limit. Not a part of core files, before os_commit. */
void *os_reserve(size_t bytes, size_t alignment);
/* As os_reserve, but at `place` (on a page), if nothing is mapped there. Keeps errno. */
enum os_placed { OS_PLACED, OS_OCCUPIED, OS_NO_ROOM };
enum os_placed os_reserve_at(void *place, size_t bytes);
/* As os_reserve, on a page, of address space that reads as zeros without costing memory. */
void *os_reserve_zeros(size_t bytes);
/* Ends a reservation, or a part of one. */
void os_release(void *address, size_t bytes);

/* Whether the kernel would let the process have so much memory at once, by its rules of overcommitment: as a
 * rule no more than the machine's memory and swap space. Cost: two system calls. */
bool os_could_commit(size_t bytes);
/* Makes reserved pages usable; they read as zero until written. False if the kernel refuses. */
bool os_commit(void *address, size_t bytes);
/* As os_commit, and locks the pages into memory. False if the kernel refuses, by RLIMIT_MEMLOCK as a rule. */
bool os_commit_locked(void *address, size_t bytes);
/* Puts memory behind the pages by one trap instead of one for each. False where the kernel cannot (before
 * 5.14) or will not: the pages are then faulted in one by one. */
bool os_populate(void *address, size_t bytes);
/* Asks the kernel for huge pages behind memory that is touched from now on, or, if not `wanted`, for small
 * ones. False if it has none. */
bool os_ask_for_huge_pages(void *address, size_t bytes, bool wanted);
/* Puts one huge page behind the 2 MiB at `address` (a multiple of that), of which no page is resident; the
 * kernel is then asked for small pages there again. False if the kernel has no huge page to give, or could
 * not split one: at most the first small page then is resident. `took_ns` gets the processor time that the
 * calling thread spent on it. */
bool os_back_by_huge_page(void *address, uint64_t *took_ns);
/* Writes a zero to memory that reads as zero, and returns the ns of processor time that the calling thread
 * spent until there was memory behind it. */
uint64_t os_touch(void *address);
/* Splits the huge page of which `part` is about to be purged into small ones: otherwise the kernel would keep
 * all of it until memory is short. Does nothing to memory that is shared with others since a fork. */
void os_split_huge_page(void *part, size_t bytes);
/* Pages of `bytes` from `address` (on a page) on that are not resident; all of them where the kernel does not
 * tell. */
size_t os_missing_pages(const void *address, size_t bytes);
/* Whether the page at `address` (on a page) is resident; true where the kernel does not tell. */
bool os_may_be_resident(const void *address);
/* Copies `count` (1..OS_PEEK_MOST) pieces of memory, of `bytes` each, from the addresses in `from` to `to`,
 * one behind the other. False if any of them cannot be read, or is not mapped any more. */
#define OS_PEEK_MOST 16
bool os_peek(void *to, const uintptr_t *from, size_t count, size_t bytes);
/* Gives the pages back: they stay usable and read as zero. False if the kernel refuses. Pages that the
 * program has locked the kernel takes from 5.18 on, and locks those that come in their place. */
bool os_purge(void *address, size_t bytes);
/* Gives back many ranges of the process that the file descriptor `process` stands for, by one call; for
 * purge.c. Returns the bytes that the kernel took, from the first range on, or -1 with errno. */
struct iovec;
long os_advise_many(int process, const struct iovec *ranges, size_t count);
/* Gives the pages back as os_purge does, but by mapping them anew, so that the kernel keeps them as one
 * area again after pages were moved. False if the pages are as they were, or not mapped any more: os_commit
 * then tells which. */
bool os_renew(void *address, size_t bytes);

/* Sleeps, less if a signal comes; no cancellation point. */
void os_sleep_ms(uint64_t ms);

/* How many calls into the kernel this layer has made for memory. */
uint64_t os_call_count(void);

void os_close(int fd);
int os_process_id(void);
/* The kernel's id of the calling thread. */
int os_thread_id(void);
/* Remembers the calling process as the one whose memory this is. To be called when the library starts and in
 * a forked child, while there is one thread. */
void os_note_process(void);
/* Remembers the calling thread if it is the process's first. To be called before it forks: the library may
 * have been loaded by another one. */
void os_note_thread(void);
/* Whether the caller is in the process that os_note_process has remembered. A process of another
 * number that runs here was not made by fork: it shares the memory with that one (vfork, clone), or
 * libc does not know of it. */
bool os_in_own_process(void);
/* Whether the caller is the process's first thread, or the only one of a child that such a thread has forked;
 * also where nobody knows. */
bool os_is_first_of_its_kin(void);

#endif
