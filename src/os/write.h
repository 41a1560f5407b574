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

/* All of it: 0, or an errno. Where there is no room and the descriptor does not wait, as of a pipe that
 * somebody has made so, waits itself if it may: for at most a second each time. Changes errno. */
int os_write_all(int fd, const char *bytes, size_t length, bool may_wait);

/* As much of it as can be; keeps errno. */
void os_write(int fd, const char *bytes, size_t length);

#endif
