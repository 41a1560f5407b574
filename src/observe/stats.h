/* Statistics at the end of the process, on a signal, and while it runs, where options ask for them.
 *
 * Promises to reach the standard error of the process's start, though the program may have closed it or
 * used its number for another file. Relies on being told of the start and the end.
 */
#ifndef HAKMEM_OBSERVE_STATS_H
#define HAKMEM_OBSERVE_STATS_H

/* Before main. */
void stats_at_start(void);
/* After the program's own atexit handlers. */
void stats_at_exit(void);
/* Where those at the exit go. */
void stats_write(void);

#endif
