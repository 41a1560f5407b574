#define _GNU_SOURCE
#include "os/shared_page.h"

#include "base/text.h"
#include "os/clock.h"
#include "os/os.h"
#include "os/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ONLY_OWNER 0600

/* By a system call proper, as all here where libc's function is a cancellation point: the
 * caller may hold a lock. */
static int open_file(const char *path, int flags) {
    /* Anybody may have put anything there under the name; a pipe must not make the program wait. */
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, ONLY_OWNER);
}

static bool identify(int fd, struct shared_file *out) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return false;
    }
    out->device = status.st_dev;
    out->inode = status.st_ino;
    return true;
}

/* The kernel's number for the namespace of processes that the machine starts with. */
#define FIRST_NAMESPACE 0xEFFFFFFCu

/* The number of the process's namespace of processes; 0 for the machine's first one, and where
 * it cannot be seen. */
static uint64_t process_namespace(void) {
    struct stat status;
    bool seen = stat("/proc/self/ns/pid", &status) == 0 && status.st_ino != FIRST_NAMESPACE;
    return seen ? status.st_ino : 0;
}

/* The namespace is part of the name, because containers may share /dev/shm, and each has
 * its own process 1. */
static void name_file(struct shared_file *file) {
    struct text name = TEXT_ON(file->name);
    uint64_t other = process_namespace();
    text_string(&name, "/dev/shm/hakmem-");
    text_decimal(&name, geteuid());
    text_char(&name, '-');
    if (other != 0) {
        text_decimal(&name, other);
        text_char(&name, '-');
    }
    text_decimal(&name, (uint64_t)os_process_id());
}

/* For so long after a crash the file stays, to be looked at. */
#define KEPT_MS ((uint64_t)3600 * 1000)
/* Reads of the folder in one sweep, of 4 KiB each. */
#define SWEEP_BUFFERS_MOST 64
/* Files of dead processes that stay at most, since a container's /dev/shm is small: of those that lived for
 * some seconds, which published PUBLISHED_LEAST times, and of others, of which a shell script leaves many. */
#define KEPT_MOST 32
#define KEPT_OF_OTHERS_MOST 16
#define PUBLISHED_LEAST 200
/* Where the file says how often and when it was written, and whether it was given up (sequence, published_ms
 * and given_up of struct live_page). */
#define PUBLISHED_OFFSET 48
#define GIVEN_UP_OFFSET 112

/* What SYS_getdents64 writes: struct linux_dirent64. */
struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* The number of the process whose file is called `name`, if that is as `own_name` but for
 * the number; else 0. `*answer` says whether more follows: it is an answer to a client then. */
static int process_of(const char *name, const char *own_name, bool *answer) {
    const char *own = strrchr(own_name, '/') + 1;
    size_t prefix = (size_t)(strrchr(own, '-') + 1 - own);
    if (strncmp(name, own, prefix) != 0) {
        return 0;
    }
    int64_t process = 0;
    const char *at = name + prefix;
    for (; *at != '\0' && *at != '.'; at++) {
        if (*at < '0' || *at > '9' || process > INT_MAX) {
            return 0;
        }
        process = process * 10 + (*at - '0');
    }
    *answer = *at == '.';
    return process > INT_MAX ? 0 : (int)process;
}

struct published {
    uint64_t times;
    uint64_t last_ms;
    char others[GIVEN_UP_OFFSET - PUBLISHED_OFFSET - 2 * sizeof(uint64_t)];
    uint32_t given_up;
};

/* When the file was written, as it says itself, or, of an `answer`, the file system; false if that is not
 * known, or it is not this user's. */
static bool read_published(int directory, const char *name, bool answer, struct published *out) {
    struct stat status;
    int fd = (int)syscall(SYS_openat, directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    bool known = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    if (known && answer) {
        *out = (struct published){.last_ms = (uint64_t)status.st_mtim.tv_sec * 1000};
    } else if (known) {
        *out = (struct published){0};
        known = syscall(SYS_pread64, fd, out, sizeof *out, (off_t)PUBLISHED_OFFSET) >=
                (long)offsetof(struct published, others);
    }
    os_close(fd);
    return known;
}

static bool is_old(const struct published *published) {
    return published->last_ms + KEPT_MS < os_real_ms();
}

/* Files of dead processes that have been found: as KEPT_MOST, and KEPT_OF_OTHERS_MOST. */
struct left {
    int served, others;
};

/* Whether a file that processes which were killed, called _exit or became another program have left is to go;
 * `left` counts those of processes. */
static bool is_of_no_use(int directory, const char *name, const char *own_name, struct left *left) {
    struct published published;
    bool answer = false;
    int process = process_of(name, own_name, &answer);
    if (process == 0) {
        return false;
    }
    if (answer) { /* a client takes it at once, or was killed */
        return read_published(directory, name, true, &published) && is_old(&published);
    }
    if (kill(process, 0) == 0 || errno != ESRCH || !read_published(directory, name, false, &published)) {
        return false;
    }
    if (published.given_up != 0) {
        return true;
    }
    bool too_many = published.times >= PUBLISHED_LEAST ? ++left->served > KEPT_MOST
                                                       : ++left->others > KEPT_OF_OTHERS_MOST;
    return too_many || is_old(&published);
}

/* Removes files that are of no use any more. `own`: the process's own file. */
static void sweep(const struct shared_file *own) {
    /* Static, because a coroutine may have little stack; one thread at a time makes the process's file. */
    static _Alignas(struct directory_entry) char entries[4096];
    struct left left = {0, 0};
    int directory = (int)syscall(SYS_openat, AT_FDCWD, "/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long filled = 1;
    for (int i = 0; directory >= 0 && i < SWEEP_BUFFERS_MOST && filled > 0; i++) {
        filled = syscall(SYS_getdents64, directory, entries, sizeof entries);
        for (long at = 0; at < filled;) {
            const struct directory_entry *entry =
                (const struct directory_entry *)(const void *)(entries + at);
            if (is_of_no_use(directory, entry->name, own->name, &left)) {
                unlinkat(directory, entry->name, 0);
            }
            at += entry->length;
        }
    }
    if (directory >= 0) {
        os_close(directory);
    }
}

/* Whether the limit on file sizes allows a file of `bytes`: making one longer than that sends a signal. */
static bool file_may_have(size_t bytes) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

/* Whether the process acts with one user's rights only. Whoever may write to the file may ask the process to
 * do things, which must not be done with another user's rights. */
static bool has_one_identity(void) {
    uid_t user, effective_user, saved_user;
    gid_t group, effective_group, saved_group;
    return getauxval(AT_SECURE) == 0 && getresuid(&user, &effective_user, &saved_user) == 0 &&
           user == effective_user && user == saved_user &&
           getresgid(&group, &effective_group, &saved_group) == 0 && group == effective_group &&
           group == saved_group;
}

void *shared_make(struct shared_file *file, size_t bytes) {
    if (!has_one_identity() || !file_may_have(bytes)) {
        return NULL;
    }
    name_file(file);
    int fd = open_file(file->name, O_CREAT | O_EXCL | O_RDWR);
    if (fd < 0 && errno == EEXIST) {
        unlink(file->name);
        fd = open_file(file->name, O_CREAT | O_EXCL | O_RDWR);
    }
    if (fd < 0) {
        return NULL;
    }
    /* The mode is set again, because the program's umask may have taken bits of it away. */
    void *address = MAP_FAILED;
    if (fchmod(fd, ONLY_OWNER) == 0 && ftruncate(fd, (off_t)bytes) == 0 && identify(fd, file)) {
        address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    os_close(fd);
    if (address == MAP_FAILED) {
        unlink(file->name);
        return NULL;
    }
    sweep(file);
    return address;
}

/* A descriptor of the file that has the name of `file`, if it is still the same file; -1 if not. */
static int open_same(const struct shared_file *file) {
    struct shared_file found;
    int fd = open_file(file->name, O_RDWR);
    if (fd >= 0 && identify(fd, &found) && found.device == file->device && found.inode == file->inode) {
        return fd;
    }
    if (fd >= 0) {
        os_close(fd);
    }
    return -1;
}

bool shared_extend(const struct shared_file *file, size_t offset, size_t bytes) {
    int fd = file_may_have(offset + bytes) ? open_same(file) : -1;
    if (fd < 0) {
        return false;
    }
    bool done = syscall(SYS_fallocate, fd, 0, (off_t)offset, (off_t)bytes) == 0;
    os_close(fd);
    return done;
}

void shared_remove(const struct shared_file *file) {
    int fd = open_same(file);
    if (fd >= 0) {
        unlink(file->name);
        os_close(fd);
    }
}

void shared_unmap(void *address, size_t bytes) {
    munmap(address, bytes);
}

void shared_make_private(void *address, size_t bytes) {
    (void)mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

uint64_t os_start_ticks(void) {
    struct reader r;
    if (!reader_open(&r, "/proc/self/stat")) {
        return 0;
    }
    /* The line is "pid (name) state ...". The name may have spaces and parentheses, so fields count
     * from the last ')'. */
    uint64_t number = 0;
    uint64_t found = 0;
    int field = 0;
    while (reader_next(&r) >= 0) {
        if (r.last == ')') {
            field = 2;
            found = 0;
        } else if (r.last == ' ') {
            if (field == 22) {
                found = number;
            }
            field += field > 0;
            number = 0;
        } else {
            number = number * 10 + (uint64_t)(r.last - '0');
        }
    }
    os_close(r.fd);
    return found;
}

int os_make_private_file(const char *path) {
    if (!file_may_have(SIZE_MAX)) {
        errno = EFBIG;
        return -1;
    }
    return open_file(path, O_CREAT | O_EXCL | O_WRONLY);
}
