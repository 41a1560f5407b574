/* A small file of shared memory that other processes of the same user read.
 *
 * Promises that memory is behind every page that it says is usable, so that touching one cannot end in a
 * signal; that it sends no signal otherwise either (a limit on file sizes); and that no descriptor stays
 * open. Relies on /dev/shm.
 */
#ifndef HAKMEM_OS_SHARED_PAGE_H
#define HAKMEM_OS_SHARED_PAGE_H

#include "os/signal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_NAME_BYTES 64

/* The file's identity, for later calls. */
struct shared_file {
    char name[SHARED_NAME_BYTES];
    uint64_t device, inode;
};

/* Makes the process's file, of `bytes` of which nothing is usable yet, in place of one that an earlier
 * process of that number has left; NULL if that is not to be had, or not wanted in a process that acts for
 * another user. Removes those of processes that ended an hour ago, and of others that ended if they are many.
 */
void *shared_make(struct shared_file *file, size_t bytes);
/* Makes a part of it usable. */
bool shared_extend(const struct shared_file *file, size_t offset, size_t bytes);
/* Removes the file, if it is still the same; the memory stays. */
void shared_remove(const struct shared_file *file);
void shared_unmap(void *address, size_t bytes);
/* What is written there from now on, others do not see (unless the system has no memory to give). */
void shared_make_private(void *address, size_t bytes);

/* Field 22 of /proc/self/stat: tells this process from a later one of the same number; 0 if unknown. */
uint64_t os_start_ticks(void);

/* A new file at `path` that must not exist, for this user only; -1 and errno. Fails with EFBIG under a limit
 * on the size of files, which might end the process by a signal. */
int os_make_private_file(const char *path);

#endif
