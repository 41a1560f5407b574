#include "os/reader.h"

#include "base/bits.h"
#include "base/text.h"

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

COLD bool reader_open_of_thread(struct reader *r, int thread, const char *file) {
    char buffer[64];
    struct text path = TEXT_ON(buffer);
    text_string(&path, "/proc/self/task/");
    text_decimal(&path, (uint64_t)thread);
    text_string(&path, "/");
    text_string(&path, file);
    return reader_open(r, buffer);
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
