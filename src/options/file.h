/* Files that options name.
 *
 * Promises that whoever cannot write one says so in one line, in the end also from a program that has closed
 * its standard error, if that could be seen at the start. Relies on options and os/kept.
 */
#ifndef HAKMEM_OPTIONS_FILE_H
#define HAKMEM_OPTIONS_FILE_H

#include "options/options.h"

struct option_file {
    enum option option;
    char path[OPTION_TEXT_BYTES + 1]; /* full if it is cut off */
};

/* Before main. */
void option_file_at_start(enum option option);
/* The option's text, in which "%p" becomes the process id and, of heap profiles, "%n" the number. */
void option_file_name(struct option_file *file, enum option option, uint64_t number);
/* A descriptor to write to, see os_open_report; -1 with errno. */
int option_file_open(const struct option_file *file);
/* One line: the setting, the path, what happened, the error, and how it goes on. */
void option_file_failed(const struct option_file *file, const char *what, int error, const char *end);

#endif
