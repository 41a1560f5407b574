/* Heap profiles into files: when one is written, and under which name.
 *
 * Promises that only the thread which writes a file waits for that, as it holds no lock meanwhile, and the
 * end of the process, for a second at most; that files are written one at a time, so that those of one name
 * are whole. A file that cannot be written is reported in one line. Relies on dump and leaks.
 */
#ifndef HAKMEM_PROFILE_FILES_H
#define HAKMEM_PROFILE_FILES_H

#include <stdbool.h>

/* Once, before main: sets the handler for the signal, and prepares for what is to be written later. */
void files_at_start(void);
/* Writes the profile and the leak report that the options ask for at exit, a peak that was not written yet
 * included. */
void files_at_exit(void);

/* Writes a profile if the memory in use has a new peak, unless a file is being written. To be called after
 * each sample, and before one is forgotten, without a lock held. Keeps errno. */
void files_write_if_peak(void);

/* Writes a profile if a signal has asked for it and its handler could not write it, because the lock of the
 * profile or that of the options was held, or a file was being written. To be called by whoever has held one
 * of them, and does not hold it any more. Keeps errno. */
void files_write_if_asked(void);
/* The same in the parent of a fork, after all locks were released; `child` says which process the caller is
 * in. */
void files_after_fork(bool child);

#endif
