#define _GNU_SOURCE
#include "os/kept.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The standard error of the start. Written before main, by one thread. */
static struct {
    bool noted;             /* the rest is set */
    bool open;              /* it was open at the start */
    int duplicate;          /* a descriptor of it; 0, or -1, if there is none */
    uint64_t device, inode; /* which file it is */
} kept;

static bool is_file(int fd, uint64_t device, uint64_t inode) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

/* Another descriptor of the same file, with a high number and closed on exec; -1 with errno. */
static int duplicate_of(int fd) {
    int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 200);
    /* EINVAL: the process may not have so many descriptors */
    return duplicate < 0 && errno == EINVAL ? fcntl(fd, F_DUPFD_CLOEXEC, 10) : duplicate;
}

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
        kept.duplicate = duplicate_of(STDERR_FILENO);
    }
}

/* Whether the folder of `path` lets the process make a file in it. */
static COLD bool folder_allows(const char *path) {
    const char *name = strrchr(path, '/');
    char buffer[1024] = ".";
    struct text folder = TEXT_ON(buffer);
    for (const char *at = path; name != NULL && at <= name; at++) {
        text_char(&folder, *at);
    }
    return access(buffer, W_OK | X_OK) == 0;
}

/* The number of the standard stream that is `file`, standard error first; -1 if none is. */
static COLD int stream_of(const struct stat *file) {
    for (int fd = STDERR_FILENO; fd >= STDIN_FILENO; fd--) {
        if (is_file(fd, file->st_dev, file->st_ino)) {
            return fd;
        }
    }
    return -1;
}

/* Whether `path` is a name of descriptor 2. Such a name means the standard error of the start, even if the
 * program has closed it, or another file has its number since. */
static COLD bool names_error_output(const char *path) {
    static const char names[][16] = {"/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(path, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the system names a descriptor by `path`, whatever is behind it. */
static COLD bool names_descriptor(const char *path) {
    static const char names[][16] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        any = any || strncmp(path, names[i], strlen(names[i])) == 0;
    }
    return any;
}

/* Whether what is of that user may have been put there for this one. */
static COLD bool is_trusted(uid_t user) {
    return user == geteuid() || user == 0;
}

/* How openat has to be asked for the file `path`, so that it follows no link but one of the user's own or of
 * root's, or one by which the system names a descriptor; -1 with errno if it is another one. */
static COLD int following(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISLNK(status.st_mode)) {
        return O_NOFOLLOW; /* it may become one meanwhile */
    }
    errno = EACCES; /* as the kernel says where it refuses such links itself */
    return is_trusted(status.st_uid) || names_descriptor(path) ? 0 : -1;
}

/* Whether a report at the end can be expected to find `path` writable, as far as that can be told
 * without opening it. */
static COLD bool will_be_there(const char *path) {
    struct stat status;
    if (following(path) < 0) {
        return false;
    }
    if (stat(path, &status) != 0) {
        bool is_missing = errno == ENOENT;
        bool is_link = lstat(path, &status) == 0; /* a link to a file that is not there */
        return is_missing && !is_link && folder_allows(path);
    }
    bool is_null = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
    return is_null || (S_ISREG(status.st_mode) && stream_of(&status) < 0 && access(path, W_OK) == 0);
}

COLD void os_keep_error_output_for(const char *path) {
    note_error_output();
    if (kept.open && (names_error_output(path) || !will_be_there(path))) {
        os_keep_error_output();
    }
}

static bool is_kept(int fd) {
    return kept.open && is_file(fd, kept.device, kept.inode);
}

int os_error_output(void) {
    if (!kept.noted) {
        return STDERR_FILENO;
    }
    /* Some programs close standard error, others all descriptors but the standard streams. */
    return kept.duplicate > 0 && is_kept(kept.duplicate) ? kept.duplicate
           : is_kept(STDERR_FILENO)                      ? STDERR_FILENO
                                                         : -1;
}

/* Empties a file that only its user shall read, who has to be this one: it may have been there before. False
 * with errno. A named pipe must be of a user whose links are followed, who may read it; what is neither is as
 * it is. */
static COLD bool make_private(const char *path, int fd, unsigned mode) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return true;
    }
    errno = EACCES;
    if (!S_ISREG(status.st_mode)) {
        return !S_ISFIFO(status.st_mode) || is_trusted(status.st_uid) || names_descriptor(path);
    }
    return status.st_uid == geteuid() && fchmod(fd, mode) == 0 && ftruncate(fd, 0) == 0;
}

/* Opens the file `path` for writing, emptied; -1 with errno. By a system call proper, because libc's open is
 * a cancellation point; with O_NONBLOCK, so that a pipe that nobody reads does not make the program wait. */
static COLD int open_emptied(const char *path, unsigned mode) {
    int flags = following(path);
    bool private = (mode & 077) == 0;
    int fd = flags < 0
                 ? -1
                 : (int)syscall(SYS_openat, AT_FDCWD, path,
                                flags | O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (private ? 0 : O_TRUNC),
                                mode);
    if (fd >= 0 && private && !make_private(path, fd, mode)) {
        int error = errno;
        os_close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

COLD int os_open_report(const char *path, unsigned mode) {
    struct stat status;
    if (names_error_output(path)) {
        return duplicate_of(os_error_output()); /* if that is -1: -1 with EBADF */
    }
    int stream = stat(path, &status) == 0 ? stream_of(&status) : -1;
    return stream > STDIN_FILENO ? duplicate_of(stream) : open_emptied(path, mode);
}

COLD int os_open_new(const char *path, unsigned mode) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}
