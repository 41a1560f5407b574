/* The one thread of the library's own.
 *
 * Promises a thread that libc does not know of: starting it takes no lock of libc's and allocates nothing, so
 * it may be started from within free; the program goes on as single-threaded as it was; it gets none of the
 * program's signals. It may use system calls, errno and the library's own locks, and nothing else of libc.
 * Relies on clone.
 */
#ifndef HAKMEM_OS_THREAD_H
#define HAKMEM_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* Before os_thread_start, by whoever is about to call it, one at a time: from here on a copy of this memory
 * can be told. */
void os_thread_prepare(void);
/* Runs `run` in the thread, which has a table of descriptors of its own; false if the system refuses (that
 * needs Linux 5.9). Not again before `run` is about to return. */
bool os_thread_start(void (*run)(void));
/* False after it has ended, with all that it did. */
bool os_thread_exists(void);
/* Whether the caller is it. */
bool os_thread_is_own(void);
/* Whether the thread belongs to the process of which this memory is a copy: in a child that was made without
 * libc's handlers (_Fork, clone). False where the kernel cannot tell, and in a child that shares the memory.
 */
bool os_thread_is_lost(void);
/* In a forked child, and where the above has said so. */
void os_thread_lost_by_fork(void);

/* A number that changes when the process drops privileges or enters a sandbox, by what its first thread
 * shows: libc makes all threads that it knows follow, and this one it does not know. */
uint64_t os_credentials(void);

/* Whether the program has, or once had, more than one thread. */
bool os_program_has_threads(void);

/* Whether the program's own code has begun; what ran until then was constructors. */
bool os_main_has_begun(void);

#endif
