/* What lies behind the library in the order in which the loader looks for names.
 *
 * Promises nothing kept between two calls. Relies on dlsym, which a program without a loader does not have.
 */
#ifndef HAKMEM_OS_LOADER_H
#define HAKMEM_OS_LOADER_H

/* The function called `name` that the program would have without this library: libc's, as a rule. NULL if
 * there is none, or no loader. */
void *os_next_function(const char *name);

#endif
