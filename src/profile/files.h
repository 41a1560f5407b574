/* Heap profiles into files: when one is written, and under which name.
 *
 * Promises that nobody waits for a file to be written but the thread that writes it: where it is one that
 * allocates, it holds no lock. A file that cannot be written is reported in one line. Relies on dump and
 * leaks.
 */
#ifndef HAKMEM_PROFILE_FILES_H
#define HAKMEM_PROFILE_FILES_H

/* Once, at start: what must be prepared for later. */
void files_at_start(void);
/* What the options ask for at exit. */
void files_at_exit(void);

/* After a sample was taken. Without a lock held. Keeps errno. */
void files_write_if_due(void);

#endif
