/* The program's environment, known before libc has set it up.
 *
 * Promises nothing of it to a program with more rights than whoever started it (setuid, file capabilities):
 * its environment is that user's, who shall not name the files that it writes. Relies on /proc where nobody
 * has said yet where the environment is.
 */
#ifndef HAKMEM_OS_ENVIRONMENT_H
#define HAKMEM_OS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tells this layer of the environment before libc knows it. */
void os_set_environment(char **environment);
/* Copies the value of an environment variable into `buffer`, as much of it as there is room for, and returns
 * `buffer`. NULL if the variable is not set. */
const char *os_environment(const char *name, char *buffer, size_t capacity);
/* Calls `visit` with each variable's name that begins with `prefix`. False if the environment is not known
 * yet. */
bool os_visit_environment(const char *prefix, void (*visit)(const char *name, size_t length));

/* An address above the frames of the process's first thread, on whose stack the environment stands; 0 if
 * unknown. */
uintptr_t os_main_stack_end(void);

#ifdef __cplusplus
}
#endif
#endif
