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

/* Makes room for the thread's errno, and a mark by which os_thread_is_lost tells a copy of this memory. To be
 * called before os_thread_start, by whoever is about to call that, one at a time. Keeps errno. */
void os_thread_prepare(void);
/* Starts the thread, which calls `run` with a table of descriptors of its own; false if the system refuses
 * (it takes Linux 5.9). Not again before `run` is about to return. Keeps errno. */
bool os_thread_start(void (*run)(void));
/* For the library's own thread: sleeps for `ms`, or until os_thread_end; false if that has been called. */
bool os_thread_sleep(uint64_t ms);
/* Any thread: ends a sleep in os_thread_sleep that has begun, if there is one. Keeps errno. */
void os_thread_wake(void);
/* Asks the thread to end, and waits until the process has one thread less, which takes it what it is about.
 * False if it sleeps in os_wait, for what only the caller could do. Does nothing in a process that only
 * shares its memory, or has a copy of it. Keeps errno.
 */
bool os_thread_end(void);
/* For os_wait: the caller, if it is the library's thread, begins to wait, or has done so. */
void os_thread_note_wait(bool begins);
/* Whether the thread has not ended yet. After false, the caller sees all that it did. */
bool os_thread_exists(void);
/* Whether the thread is there and the process has one other, as far as /proc tells: the program has ended
 * those that it had. False also where os_thread_end could not tell whether it waits for the caller. One that
 * has ended by itself counts no more when this returns, unless that takes the kernel 0.2 s and more. Some
 * system calls. Keeps errno. */
bool os_thread_is_only_other(void);
/* Whether the calling thread is the library's own. */
bool os_thread_is_own(void);
/* For the library's own thread: a descriptor of what the program has as its standard error; -1 where the
 * system does not let it, or the first thread has ended. */
int os_thread_borrow_error_output(void);
/* Whether this memory is a copy, and the thread is the original process's: so in a child that was made
 * without libc's handlers (_Fork, clone). False where the kernel cannot tell, and in a child that
 * shares the memory. */
bool os_thread_is_lost(void);
/* Notes that the thread is not in this process: in a forked child, and where
 * os_thread_is_lost has said so. */
void os_thread_lost_by_fork(void);

#endif
