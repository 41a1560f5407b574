/* Writing to descriptors that are the program's, or may be anything.
 *
 * Promises system calls proper, which are no cancellation points, since a lock may be held; and that no
 * signal comes of it where nobody reads any more, or where a file has all that the process's limit allows.
 * Relies on nothing.
 */
#ifndef HAKMEM_OS_WRITE_H
#define HAKMEM_OS_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes all `length` bytes; returns 0, or what errno says. Where the descriptor does not block (somebody may
 * have made a pipe so) and there is no room, it waits for room if it `may_wait`, for at most a second each
 * time; else it returns EAGAIN. Changes errno. */
int os_write_all(int fd, const char *bytes, size_t length, bool may_wait);

/* Writes as much of the bytes as can be, without waiting for a descriptor that does not
 * block; keeps errno. */
void os_write(int fd, const char *bytes, size_t length);

#endif
