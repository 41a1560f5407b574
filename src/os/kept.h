/* A file that was open when the process started, and is to be written to when it ends.
 *
 * Promises that no other file is written to in its place, though the program may have closed every descriptor
 * and opened its own files under the same numbers.
 */
#ifndef HAKMEM_OS_KEPT_H
#define HAKMEM_OS_KEPT_H

#include <stdint.h>

struct kept_file {
    int fd; /* a duplicate of ours, or the original where there is none */
    uint64_t device, inode;
};

/* All zero: nothing is kept. */
struct kept_file kept_open(int fd);
/* A descriptor of the file; -1 if the program has closed it. */
int kept_descriptor(const struct kept_file *file);

#endif
