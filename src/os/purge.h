/* Giving many ranges of pages back by one call.
 *
 * Each call of the kernel's that takes pages away has to wait for all cores that run the program: 2.9 µs a
 * range where another thread runs, 0.3 µs for each of 64 ranges in one call. Linux lets a process advise
 * itself that way from 6.13 on; before, and wherever it is refused, the ranges go one by one.
 *
 * Promises not to make that call where a filter of system calls (seccomp) is in force, which may end whoever
 * makes one that it does not know. To see whether there is one takes reading a file, which is not to be done
 * behind a program's back: so that is for threads with descriptors of their own, and where files are read
 * anyway. Others make the call once somebody has looked, where filters come with notice: by libc's prctl or
 * syscall, which api/sandbox.c stands in front of. (No notice is given of a filter that is installed by the
 * program's own instructions, by libc's functions looked up in libc itself, or by a libc of a namespace of
 * its own (dlmopen); it is seen at the next look.) Relies on os, the reader and the thread.
 */
#ifndef HAKMEM_OS_PURGE_H
#define HAKMEM_OS_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives back each of the `count` ranges as os_purge does, and stores in `done` what that returns for it.
 * `may_look`: the calling thread has descriptors of its own, so that the file may be opened. */
void os_purge_many(const struct iovec *ranges, size_t count, bool may_look, bool *done);

/* From now on os_purge_expect_filter comes before filters. */
void os_purge_trust_notice(void);
/* Any thread, also in a signal handler, before it installs a filter: from now on, and for good, nobody makes
 * the call (nor in the parent of a child of vfork that says so). Returns when all are back who were about to
 * make it; makes no system call where there are none. */
void os_purge_expect_filter(void);
/* A thread that may open a file: looks whether there is a filter, where that makes a difference. If there is
 * none, all threads make the call from now on. Keeps errno. */
void os_purge_look_for_filter(void);
/* Whether notice would be given of a filter, and none has been. */
bool os_purge_expects_no_filter(void);
/* Whether somebody has looked, there was none, and notice would have been given of one since. */
bool os_purge_sees_no_filter(void);
/* What was seen does not hold any more: until the next look, nobody makes the call without looking. */
void os_purge_forget_look(void);

#ifdef __cplusplus
}
#endif

#endif
