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
    uint64_t limit_bytes; /* the smallest limit of all levels; UINT64_MAX without limit */
    uint64_t room_bytes;  /* what the level nearest to its limit may still use; 0 at or over the limit,
                             UINT64_MAX without limit */
    uint64_t used_bytes;  /* what that level uses, other processes included; 0 without limit */
    uint64_t throttled;   /* how often levels were held up over their memory.high, in sum; v1: 0 */
    uint64_t pressure;    /* how much of the last 10 s tasks of the own group waited for memory, in
                             hundredths of a percent; v1, or a kernel without PSI: 0 */
};

/* Looks up where the group's files are; false if they cannot be seen or the path is too long. cgroup_read
 * calls it the first time, when the group is gone, and when the process turns out to have been moved to
 * another group, which it checks now and then. */
bool cgroup_find(void);
/* Makes the next cgroup_read look the group up anew: for a forked child, which may be moved
 * before it goes on. */
void cgroup_forget(void);

/* Reads the limits and the use of all levels into `out`; false, with `out` as without any limit, if no group
 * can be seen. Some tens of system calls. */
bool cgroup_read(struct cgroup_memory *out);

#ifdef HAKMEM_FAULTS
/* For tests: paths begin with `prefix` (not copied); forgets what was found. */
void cgroup_set_root(const char *prefix);
#endif

#ifdef __cplusplus
}
#endif
#endif
