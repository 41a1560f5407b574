/* A file of /proc or of the kernel's other trees, read byte by byte through a small buffer on the stack.
 *
 * Promises system calls proper: libc's functions are cancellation points, and a lock may be held. Relies on
 * nothing of libc but errno, which it changes.
 */
#ifndef HAKMEM_OS_READER_H
#define HAKMEM_OS_READER_H

#include <stdbool.h>
#include <stddef.h>

struct reader {
    int fd;            /* the caller closes it by os_close */
    int last;          /* what reader_next returned last; 0 at first */
    size_t at, filled; /* the next byte of `buffer`, and how many it has */
    char buffer[512];
};

/* False with errno if the file cannot be opened. */
bool reader_open(struct reader *reader, const char *path);
/* The same for `file` of a thread of the process's, by its id: "status", for example. */
bool reader_open_of_thread(struct reader *reader, int thread, const char *file);
/* The next byte, or -1 at the end and after an error. */
int reader_next(struct reader *reader);

#endif
