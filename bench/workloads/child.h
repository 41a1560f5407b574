/* Child processes of a workload. */
#ifndef HAKMEM_BENCH_CHILD_H
#define HAKMEM_BENCH_CHILD_H

#include <sys/types.h>

/* Waits for the child's end. If it failed, this process fails, too. */
void child_await(pid_t child);

#endif
