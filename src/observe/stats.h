/* Statistics: on request, and at the end of the process, on a signal, and while it runs, where options ask
 * for them.
 *
 * Promises to reach the standard error of the process's start, though the program may have closed it or
 * used its number for another file. Relies on being told of the start and the end.
 */
#ifndef HAKMEM_OBSERVE_STATS_H
#define HAKMEM_OBSERVE_STATS_H

#include "hakmem.h"

/* As hak_stats_get, hak_stats_json and hak_stats_print. */
void stats_get(hak_stats_t *out);
size_t stats_json(char *buffer, size_t capacity);
void stats_print(int fd);

/* Prepares what the options ask for. Before main. */
void stats_at_start(void);
/* Writes the statistics if the options ask for that, and removes the live page. After the program's
 * own atexit handlers. */
void stats_at_exit(void);
/* Writes the statistics to the file that the option names, or to standard error. */
void stats_write(void);
/* The same while signals are blocked: gives up where there is no room for a second. */
void stats_write_in_time(void);

#endif
