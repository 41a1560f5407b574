/* The memory limits of the container: those of the process's control group and of all groups around it.
 *
 * Promises to work from the files of cgroup v2 or, where that has the memory controller, v1, wherever they
 * are mounted and however little of the hierarchy the container shows; a file that is missing or makes no
 * sense is no limit. Allocates nothing, keeps no descriptor, keeps errno, is no cancellation point, takes
 * no lock and at most 3 KiB of stack: fit for a thread without libc's set-up and for a forked child, even
 * if another thread was in here at the fork.
 * Relies on its callers to come one at a time.
 */
#ifndef HAKMEM_OS_CGROUP_H
#define HAKMEM_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A level is one group: the process's own or one around it. A level's limit is the lower one of memory.max
 * and memory.high; what it uses is without the file cache that the kernel would drop first (inactive_file).
 */
struct cgroup_memory {
    uint64_t limit_bytes; /* the smallest limit of all levels; UINT64_MAX: none, as in the next */
    uint64_t room_bytes;  /* to the limit of the level that is nearest to its own; 0 at or over it */
    uint64_t used_bytes;  /* by that level, other processes included; 0 without limit */
    uint64_t throttled;   /* times that a level was held up over its memory.high; v1: 0 */
    uint64_t pressure;    /* of the last 10 s, how long tasks of the own group waited for memory, in
                             hundredths of a percent; v1, or a kernel without PSI: 0 */
};

/* Looks up where the group's files are; false if they cannot be seen or the path is too long. cgroup_read
 * calls it at first, when the group is gone, and when the process turns out to have been moved, for which it
 * looks now and then. */
bool cgroup_find(void);
/* In a forked child, which may be moved before it goes on: the next cgroup_read looks anew. */
void cgroup_forget(void);

/* False, with `out` as without any limit, if there is no group to be seen. Some tens of system calls. */
bool cgroup_read(struct cgroup_memory *out);

#ifdef HAKMEM_FAULTS
/* For tests: paths begin with `prefix` (not copied); forgets what was found. */
void cgroup_set_root(const char *prefix);
#endif

#ifdef __cplusplus
}
#endif
#endif
