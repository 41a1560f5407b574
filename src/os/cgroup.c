#define _GNU_SOURCE
#include "os/cgroup.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "os/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES 512
#define FILE_NAME_BYTES 32 /* room for the longest name of a file read below, with its slash */
#define NO_VALUE UINT64_MAX
/* One of so many calls of cgroup_read checks whether the process was moved to another group. */
#define READS_OF_A_PLACE 4

/* Where the process's group is. Another thread may fork while this is being written: the rest means something
 * only where `looked` is true. */
static struct {
    _Atomic bool looked; /* release in cgroup_find pairs with the acquire in cgroup_read */
    bool v1;
    unsigned reads;         /* since cgroup_find */
    size_t mount_length;    /* the part of `path` that is the mount */
    bool known;             /* `group` is set */
    char group[PATH_BYTES]; /* as /proc/thread-self/cgroup names it; empty for the top */
    char path[PATH_BYTES];  /* the folder with its files; empty: none was found */
} found;

#ifdef HAKMEM_FAULTS
static const char *root = "";

void cgroup_set_root(const char *prefix) {
    root = prefix;
    /* relaxed: a test calls this while no other thread is in here */
    atomic_store_explicit(&found.looked, false, memory_order_relaxed);
}
#else
#define root ""
#endif

static bool line_ended(const struct reader *r) {
    return r->last == '\n' || r->last < 0;
}

static void truncate_text(struct text *t, size_t length) {
    t->length = length;
    t->buffer[length] = '\0';
}

/* Text that was cut off cannot be told from text that just fits: neither is used. */
static bool complete(const struct text *t) {
    return t->length + 1 < t->capacity;
}

/* Reads the text up to the character `end` into `out`, never beyond the end of the line, behind which further
 * fields read as empty. Fields that end in a space are mountinfo's, which writes odd characters as a
 * backslash and three octal digits. */
static void read_field(struct reader *r, int end, struct text *out) {
    truncate_text(out, 0);
    while (!line_ended(r)) {
        int c = reader_next(r);
        if (c == end || line_ended(r)) {
            break;
        }
        if (c == '\\' && end == ' ') {
            c = 0;
            for (int digit = 0; digit < 3 && !line_ended(r); digit++) {
                c = c << 3 | (reader_next(r) & 7);
            }
        }
        text_char(out, (char)c);
    }
}

static void next_line(struct reader *r) {
    while (!line_ended(r)) {
        reader_next(r);
    }
    if (r->last == '\n') {
        r->last = 0;
    }
}

/* Whether "memory" is one of the words in `list`, which commas separate. */
static bool lists_memory(const char *list) {
    static const char word[] = "memory";
    for (const char *at = list; (at = strstr(at, word)) != NULL; at++) {
        char after = at[sizeof word - 1];
        if ((at == list || at[-1] == ',') && (after == '\0' || after == ',')) {
            return true;
        }
    }
    return false;
}

/* Makes `path` the tests' root, `a` and `b`, one behind the other. */
static void join(struct text *path, const char *a, const char *b) {
    truncate_text(path, 0);
    if (root[0] != '\0') {
        text_string(path, root);
    }
    text_string(path, a);
    text_string(path, b);
}

/* Opens `path` below the tests' root, using `scratch` to put the two together. */
static bool open_own(struct reader *r, const char *path, struct text *scratch) {
    if (root[0] == '\0') {
        return reader_open(r, path);
    }
    join(scratch, path, "");
    return complete(scratch) && reader_open(r, scratch->buffer);
}

/* Reads into `group` the path of the process's group in the hierarchy that has the memory controller: v1's if
 * the controller is listed there, else v2's; empty for the top. A line is "number:controllers:path". */
static bool read_own_group(struct reader *r, struct text *group, struct text *field, bool *v1) {
    bool any = false;
    /* Not those of the process (/proc/self): where its first thread has ended, it is in no group any more. */
    if (!open_own(r, "/proc/thread-self/cgroup", field)) {
        return false;
    }
    for (*v1 = false; r->last >= 0 && !*v1; next_line(r)) {
        read_field(r, ':', field);
        read_field(r, ':', field);
        bool memory = lists_memory(field->buffer);
        if (r->last == ':' && (memory || field->length == 0)) {
            read_field(r, '\n', group);
            *v1 = memory;
            any = true;
        }
    }
    os_close(r->fd);
    if (!any || !complete(group) || group->buffer[0] != '/') {
        return false;
    }
    if (group->length == 1) {
        truncate_text(group, 0);
    }
    return true;
}

static bool exists(const char *path) {
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Whether `path` begins with "/..": it leads out of what the namespace of control groups shows. */
static bool leads_out(const char *path) {
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

/* The path of `group` below a mount that shows the hierarchy from `top` down; NULL if it cannot be there.
 * `*certain` is set to whether `top` begins the group's path, so that nothing was guessed. */
static const char *place_below(const char *top, const char *group, bool *certain) {
    size_t length = strlen(top);
    if (length == 1) {
        length = 0;
    }
    *certain = strncmp(group, top, length) == 0 && (group[length] == '/' || group[length] == '\0');
    const char *rest = *certain ? group + length : group;
    if (!*certain && leads_out(top)) {
        return ""; /* a level around the namespace: those between have no names here */
    }
    return leads_out(rest) ? NULL : rest;
}

/* Stores in `found` where the group is below `mount`, if it is there; true if it is at `rest`, as expected.
 * Of a path that is the host's, only the last components may exist in a container, or none: then the mount
 * itself stands for the group. */
static bool settle(const struct text *mount, const char *rest, struct text *path) {
    for (bool as_expected = true;; as_expected = false) {
        join(path, mount->buffer, rest);
        if (!complete(path)) {
            return false;
        }
        if (exists(path->buffer)) {
            found.mount_length = path->length - strlen(rest);
            memcpy(found.path, path->buffer, path->length + 1);
            return as_expected;
        }
        if (rest[0] == '\0') {
            return false;
        }
        rest = strchrnul(rest + 1, '/');
    }
}

/* Looks through the mounts for `group`, and stores in `found` where it is. A line is
 * "id parent device root mount-point options tags... - type source options". */
static void search_mounts(struct reader *r, const struct text *group, struct text *field) {
    char mount_buffer[PATH_BYTES];
    struct text mount = TEXT_ON(mount_buffer);
    if (!open_own(r, "/proc/thread-self/mountinfo", field)) {
        return;
    }
    /* The first guess is taken, unless a later mount makes it certain where the group is. */
    for (bool done = false; r->last >= 0 && !done; next_line(r)) {
        for (int i = 0; i < 4; i++) {
            read_field(r, ' ', field);
        }
        bool certain;
        const char *rest = place_below(field->buffer, group->buffer, &certain);
        read_field(r, ' ', &mount);
        do {
            read_field(r, ' ', field);
        } while (r->last == ' ' && strcmp(field->buffer, "-") != 0);
        read_field(r, ' ', field);
        bool ours = strcmp(field->buffer, found.v1 ? "cgroup" : "cgroup2") == 0;
        read_field(r, ' ', field);
        read_field(r, ' ', field);
        ours = ours && (!found.v1 || lists_memory(field->buffer)) && rest != NULL;
        if (ours && (certain || found.path[0] == '\0')) {
            done = settle(&mount, rest, field) && certain;
        }
    }
    os_close(r->fd);
}

void cgroup_forget(void) {
    /* relaxed: whoever reads it next is this thread, or one that this one makes later */
    atomic_store_explicit(&found.looked, false, memory_order_relaxed);
}

/* Whether the process's group is another one than that in `found`. */
static COLD bool is_moved(void) {
    struct reader r;
    char group_buffer[PATH_BYTES];
    char field_buffer[PATH_BYTES];
    struct text group = TEXT_ON(group_buffer);
    struct text field = TEXT_ON(field_buffer);
    bool v1;
    bool known = read_own_group(&r, &group, &field, &v1);
    return known && (!found.known || v1 != found.v1 || strcmp(group.buffer, found.group) != 0);
}

bool cgroup_find(void) {
    int saved_errno = errno;
    struct reader r;
    char group_buffer[PATH_BYTES];
    char field_buffer[PATH_BYTES];
    struct text group = TEXT_ON(group_buffer);
    struct text field = TEXT_ON(field_buffer);
    /* relaxed, with the fence behind it and the release store at the end: the copy of `found` that a forked
     * child gets must not have `looked` while the rest is half written */
    atomic_store_explicit(&found.looked, false, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    found.path[0] = '\0';
    found.known = false;
    found.reads = 0;
    if (read_own_group(&r, &group, &field, &found.v1)) {
        found.known = true;
        memcpy(found.group, group.buffer, group.length + 1);
        search_mounts(&r, &group, &field);
    }
    atomic_store_explicit(&found.looked, true, memory_order_release); /* pairs with cgroup_read's acquire */
    errno = saved_errno;
    return found.path[0] != '\0';
}

/* The number behind `key` in the line of the level's `file` that begins with it; if the key ends in '=', the
 * number's decimal point is left out, so that 1.25 reads as 125. NO_VALUE for anything else: no such file or
 * line, "max", the huge number that v1 has for no limit, and nonsense. */
static uint64_t read_value(struct text *level, const char *file, const char *key) {
    struct reader r;
    size_t level_length = level->length;
    text_string(level, file);
    bool open = reader_open(&r, level->buffer);
    truncate_text(level, level_length);
    if (!open) {
        return NO_VALUE;
    }
    uint64_t value = NO_VALUE;
    for (; r.last >= 0 && value == NO_VALUE; next_line(&r)) {
        const char *k = key;
        int c = reader_next(&r);
        while (*k != '\0' && c == (unsigned char)*k) {
            k++;
            c = reader_next(&r);
        }
        if (*k != '\0' || c < '0' || c > '9') {
            continue;
        }
        bool fraction = k != key && k[-1] == '=';
        uint64_t number = 0;
        for (; (c >= '0' && c <= '9') || (c == '.' && fraction); c = reader_next(&r)) {
            if (c != '.' && number <= NO_VALUE >> 5) {
                number = number * 10 + (uint64_t)(c - '0');
            }
        }
        if (number <= NO_VALUE >> 5 && (line_ended(&r) || c == ' ')) {
            value = number;
        }
    }
    os_close(r.fd);
    return value;
}

static uint64_t value_or_0(uint64_t value) {
    return value == NO_VALUE ? 0 : value;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Takes the limit and the use of the group whose folder `level` names into `out`. */
static void read_level(struct text *level, struct cgroup_memory *out) {
    const char *current = "/memory.current";
    const char *droppable = "inactive_file ";
    uint64_t limit;
    if (found.v1) {
        current = "/memory.usage_in_bytes";
        droppable = "total_inactive_file ";
        /* hierarchical_memory_limit is the smallest of all levels, even of those that cannot be seen here. */
        limit = smaller(read_value(level, "/memory.limit_in_bytes", ""),
                        read_value(level, "/memory.stat", "hierarchical_memory_limit "));
    } else {
        limit = read_value(level, "/memory.high", "");
        if (limit != NO_VALUE) {
            /* memory.events would also count the groups inside this one, which may be other programs. */
            out->throttled += value_or_0(read_value(level, "/memory.events.local", "high "));
        }
        limit = smaller(limit, read_value(level, "/memory.max", ""));
    }
    if (limit == NO_VALUE) {
        return; /* before memory.stat is read, which costs the kernel work */
    }
    uint64_t used = value_or_0(read_value(level, current, ""));
    used -= smaller(used, value_or_0(read_value(level, "/memory.stat", droppable)));
    uint64_t room = limit - smaller(limit, used);
    out->limit_bytes = smaller(out->limit_bytes, limit);
    /* Of several levels that are over their limits, the innermost one counts, which is read first. */
    if (room < out->room_bytes) {
        out->room_bytes = room;
        out->used_bytes = used;
    }
}

bool cgroup_read(struct cgroup_memory *out) {
    int saved_errno = errno;
    *out = (struct cgroup_memory){.limit_bytes = NO_VALUE, .room_bytes = NO_VALUE};
    /* acquire pairs with the release in cgroup_find */
    if (!atomic_load_explicit(&found.looked, memory_order_acquire) ||
        (found.path[0] != '\0' && !exists(found.path)) ||
        (++found.reads % READS_OF_A_PLACE == 0 && is_moved())) {
        cgroup_find();
    }
    bool is_known = found.path[0] != '\0';
    if (is_known) {
        char path[PATH_BYTES + FILE_NAME_BYTES];
        struct text level = TEXT_ON(path);
        text_string(&level, found.path);
        out->pressure = found.v1 ? 0 : value_or_0(read_value(&level, "/memory.pressure", "some avg10="));
        read_level(&level, out);
        while (level.length > found.mount_length) {
            size_t length = level.length - 1;
            while (path[length] != '/') {
                length--;
            }
            truncate_text(&level, length);
            read_level(&level, out);
        }
    }
    errno = saved_errno;
    return is_known;
}
