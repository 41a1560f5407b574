#include "os/kept.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool noted;
    bool open;     /* at the start */
    int duplicate; /* 0 where there is none */
    uint64_t device, inode;
} kept;

static void note_error_output(void) {
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
    note_error_output();
    if (kept.open && kept.duplicate <= 0) {
        kept.duplicate = os_duplicate(STDERR_FILENO);
    }
}

/* Whether a file of this path can be made. */
static COLD bool folder_allows(const char *path) {
    const char *name = strrchr(path, '/');
    char buffer[1024] = ".";
    struct text folder = TEXT_ON(buffer);
    for (const char *at = path; name != NULL && at <= name; at++) {
        text_char(&folder, *at);
    }
    return access(buffer, W_OK | X_OK) == 0;
}

/* Whether an ordinary file is or can be there that may be written to, as far as that can be told without
 * opening it. */
static COLD bool is_ordinary(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        return errno == ENOENT && folder_allows(path);
    }
    bool is_error_output = status.st_dev == kept.device && status.st_ino == kept.inode;
    return S_ISREG(status.st_mode) && !is_error_output && access(path, W_OK) == 0;
}

void os_keep_error_output_for(const char *path) {
    int saved_errno = errno;
    note_error_output();
    if (kept.open && !is_ordinary(path)) {
        os_keep_error_output();
    }
    errno = saved_errno;
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
