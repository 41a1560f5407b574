/* Where reports go when the process ends: the standard error of its start, or a file.
 *
 * Promises that no other file is written to in the place of that standard error, though the program may have
 * closed every descriptor and opened its own files under the same numbers.
 */
#ifndef HAKMEM_OS_KEPT_H
#define HAKMEM_OS_KEPT_H

/* Before main, for a report that is to go there. Many programs close their standard error in a last handler,
 * to see whether that works: a duplicate stays open, which programs that look through their descriptors see.
 */
void os_keep_error_output(void);
/* Before main, for a report to this file, whose place it takes only if that cannot be written. Keeps it if
 * that is so already, or if the file is no ordinary one (a pipe without a reader refuses). Else it opens
 * nothing, and what a program has closed by the time when its disk is full is gone. */
void os_keep_error_output_for(const char *path);
/* A new descriptor of that file, emptied; of one that is the program's standard output or error already, as
 * they are (/dev/stderr may be a log). -1 with errno. */
int os_open_report(const char *path);
/* A descriptor of it; -1 if the program has closed it. What is the standard error now, if neither was called.
 */
int os_error_output(void);

#endif
