/* The live page: the statistics in shared memory, for other processes of the same user to read at any time,
 * and what they ask for. docs/statistics.md has its layout.
 *
 * Promises that a reader always finds a whole text, also after a crash; that no thread waits for a
 * publication, and that these take at most half a percent of the time of those that make them; that nothing
 * is touched, nor any system call made, before the process has lived for some milliseconds. Relies on slow
 * paths of the heap to be told that time goes by.
 */
#ifndef HAKMEM_OBSERVE_LIVE_H
#define HAKMEM_OBSERVE_LIVE_H

/* Before main. `stats_signal`: the signal at which the statistics are to be written, 0 for none. */
void live_start(int stats_signal);
/* At the normal end: the page goes. */
void live_end(void);

#endif
