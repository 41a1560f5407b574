/* The live page: the statistics in shared memory, for other processes of the same user to read at any time,
 * and answers to their requests. docs/statistics.md has its layout.
 *
 * Promises that a reader always finds a whole text, also after a crash; that no thread waits for a
 * publication but one that gives memory back on request, and that these take at most half a percent of the
 * time of those that make them, more where much changes or on such requests (docs/statistics.md); that
 * nothing is touched, nor any system call made, before the process has lived for some milliseconds. Relies on
 * events from slow paths of the heap (heap/event.h) as occasions to look at the clock.
 */
#ifndef HAKMEM_OBSERVE_LIVE_H
#define HAKMEM_OBSERVE_LIVE_H

/* Begins to listen to the heap's events, as the options say. Before main. `stats_signal`: the signal at which
 * the statistics are to be written, 0 for none. */
void live_start(int stats_signal);
/* At the normal end of the process: from here on nothing is published, no request answered, and no statistics
 * written at a signal. Waits for some 0.1 s at most, and for 2 s where such ones are being written. */
void live_stop(void);
/* After live_stop: removes the page. */
void live_end(void);

#endif
