/* Giving many ranges of pages back by one call.
 *
 * Each call of the kernel's that takes pages away has to wait for all cores that run the program: 2.9 µs a
 * range where another thread runs, 0.3 µs for each of 64 ranges in one call. Linux lets a process advise
 * itself that way from 6.13 on; before, and wherever it is refused, the ranges go one by one.
 *
 * Promises not to make that call in a program that is confined to a list of system calls (seccomp), which may
 * end whoever makes another one; to see whether it is takes reading a file. Relies on os and the reader.
 */
#ifndef HAKMEM_OS_PURGE_H
#define HAKMEM_OS_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As os_purge does with each; `done` gets what it returns. `may_look` allows to open the file. */
void os_purge_many(const struct iovec *ranges, size_t count, bool may_look, bool *done);

#ifdef __cplusplus
}
#endif

#endif
