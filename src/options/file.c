#define _GNU_SOURCE
#include "options/file.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/kept.h"
#include "os/os.h"
#include "os/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool option_file_name(struct option_file *file, enum option option, uint64_t number, bool may_wait) {
    file->option = option;
    file->numbered = false;
    file->path[0] = '\0';
    struct text path = TEXT_ON(file->path);
    const char *pattern = option_begin_text(option, may_wait);
    if (pattern == NULL) {
        return false;
    }
    for (const char *at = pattern; *at != '\0'; at++) {
        bool is_process = at[0] == '%' && at[1] == 'p';
        bool is_number = at[0] == '%' && at[1] == 'n' && option == OPTION_PROF_FILE;
        file->numbered = file->numbered || is_number;
        if (is_process || is_number) {
            text_decimal(&path, is_process ? (uint64_t)os_process_id() : number);
            at++;
        } else {
            text_char(&path, *at);
        }
    }
    option_end_text();
    return true;
}

COLD void option_file_at_start(enum option option) {
    struct option_file file;
    (void)option_file_name(&file, option, 0, true);
    os_keep_error_output_for(file.path);
}

int option_file_open(const struct option_file *file) {
    if (strlen(file->path) == OPTION_TEXT_BYTES) {
        errno = ENAMETOOLONG; /* a name that was cut off may be another file's */
        return -1;
    }
    /* A heap profile has the addresses of all that is mapped, which the kernel tells nobody else. */
    unsigned mode = file->option == OPTION_PROF_FILE ? 0600 : 0644;
    return file->numbered ? os_open_new(file->path, mode) : os_open_report(file->path, mode);
}

COLD void option_file_discard(const struct option_file *file) {
    if (file->numbered) {
        unlink(file->path);
    }
}

COLD void option_file_failed(const struct option_file *file, const char *what, int error, const char *end,
                             enum patience patience) {
    char message[OPTION_TEXT_BYTES + 128];
    struct text line = TEXT_ON(message);
    const char *parts[] = {option_environment(file->option), ": ", file->path, what,
                           strerrordesc_np(error),           end};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        text_string(&line, parts[i]);
    }
    report_line_to(os_error_output(), message, patience);
}
