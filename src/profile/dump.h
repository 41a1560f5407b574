/* The heap profile in the text format heap_v2, which pprof, jeprof and Pyroscope read.
 *
 * Promises sampled figures as they are, one line for each call stack and size group: readers scale each by
 * the mean size of its blocks and the interval in the header. No lock is held while it is written. Relies on
 * /proc/self/maps for what is mapped where.
 */
#ifndef HAKMEM_PROFILE_DUMP_H
#define HAKMEM_PROFILE_DUMP_H

#include "profile/snapshot.h"

/* Writes the profile to `fd`, and ends the snapshot. 0, or -1 with errno. May be called in
 * a signal handler. */
int dump_write(int fd, struct snapshot *snapshot);

#endif
