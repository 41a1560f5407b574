#include "os/kept.h"

#include "os/os.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool noted;
    bool open;     /* at the start */
    int duplicate; /* 0 where there is none */
    uint64_t device, inode;
} kept;

void os_note_error_output(void) {
    struct stat status;
    if (kept.noted) {
        return;
    }
    kept.noted = true;
    if (fstat(STDERR_FILENO, &status) == 0) {
        kept.open = true;
        kept.device = status.st_dev;
        kept.inode = status.st_ino;
    }
}

void os_keep_error_output(void) {
    os_note_error_output();
    if (kept.open && kept.duplicate <= 0) {
        kept.duplicate = os_duplicate(STDERR_FILENO);
    }
}

static bool is_kept(int fd) {
    struct stat status;
    return kept.open && fstat(fd, &status) == 0 && status.st_dev == kept.device &&
           status.st_ino == kept.inode;
}

int os_error_output(void) {
    if (!kept.noted) {
        return STDERR_FILENO;
    }
    /* One closes standard error, another all but the standard streams. */
    return kept.duplicate > 0 && is_kept(kept.duplicate) ? kept.duplicate
           : is_kept(STDERR_FILENO)                      ? STDERR_FILENO
                                                         : -1;
}
