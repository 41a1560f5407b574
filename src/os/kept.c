#include "os/kept.h"

#include "os/os.h"

#include <stdbool.h>
#include <sys/stat.h>

static bool is_the_file(const struct kept_file *file, int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode;
}

struct kept_file kept_open(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return (struct kept_file){.fd = -1};
    }
    int duplicate = os_duplicate(fd);
    return (struct kept_file){duplicate >= 0 ? duplicate : fd, status.st_dev, status.st_ino};
}

int kept_descriptor(const struct kept_file *file) {
    return file->fd >= 0 && is_the_file(file, file->fd) ? file->fd : -1;
}
