/* Statistics at the end of the process, where options ask for them. */
#ifndef HAKMEM_OBSERVE_STATS_H
#define HAKMEM_OBSERVE_STATS_H

/* After the program's own atexit handlers. */
void stats_at_exit(void);

#endif
