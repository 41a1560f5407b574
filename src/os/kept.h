/* The standard error of the process's start, for reports when it ends.
 *
 * Promises that no other file is written to in its place, though the program may have closed every descriptor
 * and opened its own files under the same numbers.
 */
#ifndef HAKMEM_OS_KEPT_H
#define HAKMEM_OS_KEPT_H

/* Before main. Many programs close their standard error in a last handler, to see whether that works. */
void os_keep_error_output(void);
/* A descriptor of it; -1 if the program has closed it. What is the standard error now, if none was kept. */
int os_error_output(void);

#endif
