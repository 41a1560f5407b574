/* Files that options name.
 *
 * Promises that a file that cannot be written is reported in one line, even if the program has closed
 * its standard error by then, provided that the failure could be foreseen at the start. Relies on
 * options and os/kept.
 */
#ifndef HAKMEM_OPTIONS_FILE_H
#define HAKMEM_OPTIONS_FILE_H

#include "options/options.h"
#include "os/write.h"

#include <stdbool.h>
#include <stdint.h>

struct option_file {
    enum option option;
    bool numbered;                    /* a number is part of the path */
    char path[OPTION_TEXT_BYTES + 1]; /* if it is full, the path was cut off */
};

/* Keeps the standard error open if the option's file will not be writable later. Before main. */
void option_file_at_start(enum option option);
/* Makes the file's path from the option's text: "%p" becomes the process id and, in that of heap profiles,
 * "%n" becomes `number`. False if the options' lock is held and the caller may not wait. */
bool option_file_name(struct option_file *file, enum option option, uint64_t number, bool may_wait);
/* A descriptor to write the file, see os_open_report; -1 with errno. Where it has a number, errno is EEXIST
 * if there is such a file: it is to have the next number then. */
int option_file_open(const struct option_file *file);
/* Removes the file, which could not be written whole, if option_file_open has made it: if it has a number. */
void option_file_discard(const struct option_file *file);
/* Reports in one line that the file could not be written: the setting, the path, `what` happened, the text of
 * the errno `error`, and `end`, which says how it goes on. */
void option_file_failed(const struct option_file *file, const char *what, int error, const char *end,
                        enum patience patience);

#endif
