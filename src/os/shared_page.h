/* A small file of shared memory that other processes of the same user read.
 *
 * Promises that memory is behind every page that it says is usable, so that touching one cannot end in a
 * signal; that no signal comes of a limit on file sizes either; and that no descriptor stays open. Relies on
 * /dev/shm. Changes errno.
 */
#ifndef HAKMEM_OS_SHARED_PAGE_H
#define HAKMEM_OS_SHARED_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_NAME_BYTES 64

/* The file's identity, for later calls. */
struct shared_file {
    char name[SHARED_NAME_BYTES];
    uint64_t device, inode;
};

/* Makes the process's file of `bytes`, in place of one that an earlier process of that number has left, and
 * maps it; none of it is usable yet. NULL if that fails, and in a process that acts for another user, where
 * it is not wanted. Removes the files of processes that ended an hour ago, or had given theirs up, those of
 * others that ended if they are many, and answers to clients that are an hour old. One thread at a time. */
void *shared_make(struct shared_file *file, size_t bytes);
/* Makes `bytes` of the file from `offset` on usable; false if the system has no memory to give, or the file
 * is not there any more. */
bool shared_extend(const struct shared_file *file, size_t offset, size_t bytes);
/* Removes the file, if what has its name is still the same; the memory stays mapped. */
void shared_remove(const struct shared_file *file);
/* Unmaps the memory of a file; the file stays. */
void shared_unmap(void *address, size_t bytes);
/* Puts private memory, which reads as zero, in place of the file's: what is written there from now on, others
 * do not see. If the system has no memory to give, nothing changes. */
void shared_make_private(void *address, size_t bytes);

/* When the process started, as field 22 of /proc/self/stat says: tells it from a later process of the same
 * number. 0 if unknown. */
uint64_t os_start_ticks(void);

/* Makes the file `path`, which must not exist, for this user only, and returns a descriptor to write
 * to; -1 with errno. Fails with EFBIG under any limit on the size of files, which might end the
 * process by a signal. */
int os_make_private_file(const char *path);

#endif
