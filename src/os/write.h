/* Writing to descriptors that are the program's, or may be anything.
 *
 * Promises system calls proper, which are no cancellation points, since a lock may be held; and that no
 * signal comes of it where nobody reads any more, or where a file has all that the process's limit allows.
 * Relies on os.
 */
#ifndef HAKMEM_OS_WRITE_H
#define HAKMEM_OS_WRITE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How long a write waits where a descriptor has no room. */
enum patience {
    PATIENCE_NONE, /* not at all, if the descriptor does not block (somebody may have made a pipe so) */
    PATIENCE_SOME, /* for a second each time, if it does not block */
    /* The same whether it blocks or not, for up to 4 KiB in all: where nothing else could end the wait.
     * Others may still take the room that was found, and a terminal that the process cannot open (another
     * user's) may have less than is written. */
    PATIENCE_LIMITED,
};

/* Writes all `length` bytes; returns 0, or what errno says: EAGAIN if there was no room for so long. Changes
 * errno. */
int os_write_all(int fd, const char *bytes, size_t length, enum patience patience);

/* Writes as much of the bytes as can be; keeps errno. */
void os_write(int fd, const char *bytes, size_t length, enum patience patience);

#ifdef __cplusplus
}
#endif

#endif
