#include "os/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

bool reader_open(struct reader *r, const char *path) {
    r->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    r->last = 0;
    r->at = r->filled = 0;
    return r->fd >= 0;
}

int reader_next(struct reader *r) {
    if (r->at == r->filled) {
        long n;
        do {
            n = syscall(SYS_read, r->fd, r->buffer, sizeof r->buffer);
        } while (n < 0 && errno == EINTR);
        if (n <= 0) {
            return r->last = -1;
        }
        r->at = 0;
        r->filled = (size_t)n;
    }
    return r->last = (unsigned char)r->buffer[r->at++];
}
