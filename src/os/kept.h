/* Where reports go when the process ends: the standard error of its start, or a file.
 *
 * Promises that no other file is written to in place of that standard error, though the program may have
 * closed every descriptor and opened its own files under the same numbers. Relies on the first two functions
 * being called before main, by one thread. Changes errno.
 */
#ifndef HAKMEM_OS_KEPT_H
#define HAKMEM_OS_KEPT_H

/* Before main, for a report that is to go to standard error: keeps a duplicate of it open, because many
 * programs close theirs in a last handler, to see whether that works. Programs that look through their
 * descriptors see the duplicate. */
void os_keep_error_output(void);
/* Before main, for a report to the file `path`, which goes to standard error only if the file cannot be
 * written. Keeps a duplicate, as os_keep_error_output, if the file cannot be written already now or is no
 * ordinary one (a pipe without a reader refuses). Otherwise it only notes which file standard error is: if
 * the program closes that, and the report's file then cannot be written, the report is lost. */
void os_keep_error_output_for(const char *path);
/* A new descriptor for a report to `path`, whose contents are dropped, and which is made with `mode`; if the
 * file is the program's standard output or error already, a duplicate of that, and the contents stay
 * (/dev/stderr may be a log). -1 with errno: EACCES if `path` is a symbolic link of another user's, who could
 * have any file of this one emptied by it, or, with a `mode` that lets nobody else read the file, such a
 * user's file or named pipe. Names of descriptors (/dev/fd/3) are no such links. */
int os_open_report(const char *path, unsigned mode);
/* A new descriptor for a report to `path`, a file that is made with `mode`; -1 with errno: EEXIST if there is
 * one already, be it a link. */
int os_open_new(const char *path, unsigned mode);
/* A descriptor of the standard error of the start; -1 if the program has closed it. If neither of the first
 * two functions was called: descriptor 2, whatever it is now. */
int os_error_output(void);

#endif
