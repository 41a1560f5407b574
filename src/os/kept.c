#include "os/kept.h"

#include "os/os.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool tried;
    int fd; /* a duplicate of ours, or the original where there is none */
    uint64_t device, inode;
} kept;

void os_keep_error_output(void) {
    if (kept.tried) {
        return;
    }
    kept.tried = true;
    kept.fd = -1;
    struct stat status;
    if (fstat(STDERR_FILENO, &status) == 0) {
        int duplicate = os_duplicate(STDERR_FILENO);
        kept.fd = duplicate >= 0 ? duplicate : STDERR_FILENO;
        kept.device = status.st_dev;
        kept.inode = status.st_ino;
    }
}

int os_error_output(void) {
    if (!kept.tried) {
        return STDERR_FILENO;
    }
    struct stat status;
    bool same = kept.fd >= 0 && fstat(kept.fd, &status) == 0 && status.st_dev == kept.device &&
                status.st_ino == kept.inode;
    return same ? kept.fd : -1;
}
