/* The standard error of the process's start, for reports when it ends.
 *
 * Promises that no other file is written to in its place, though the program may have closed every descriptor
 * and opened its own files under the same numbers.
 */
#ifndef HAKMEM_OS_KEPT_H
#define HAKMEM_OS_KEPT_H

/* Before main, for a report that is to go there. Many programs close their standard error in a last handler,
 * to see whether that works: a duplicate stays open, which programs that look through their descriptors see.
 */
void os_keep_error_output(void);
/* Before main, for a report that goes there only if it cannot go elsewhere: opens nothing, and what a program
 * has closed is gone. */
void os_note_error_output(void);
/* A descriptor of it; -1 if the program has closed it. What is the standard error now, if neither was called.
 */
int os_error_output(void);

#endif
