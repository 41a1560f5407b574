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

static bool is_kept(int fd) {
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == kept.device && status.st_ino == kept.inode;
}

int os_error_output(void) {
    if (!kept.tried || kept.fd < 0) {
        return kept.tried ? -1 : STDERR_FILENO;
    }
    /* One closes standard error, another all but the standard streams. */
    return is_kept(kept.fd) ? kept.fd : is_kept(STDERR_FILENO) ? STDERR_FILENO : -1;
}
