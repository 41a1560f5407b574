/* The leak report: what is still in use, by call stack, as far as sampling tells.
 *
 * Promises estimates and says so: blocks that were not sampled are unknown, and what is in use need not be
 * lost. Each line of a stack names the call, as module+offset the way addr2line takes it. No lock is held
 * while it is written. Relies on snapshots and modules.
 */
#ifndef HAKMEM_PROFILE_LEAKS_H
#define HAKMEM_PROFILE_LEAKS_H

/* Writes the report to `fd`: 0, or -1 with errno, which is what writing says, or ENOMEM. */
int leaks_write(int fd);

#endif
