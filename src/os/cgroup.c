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
#define FILE_NAME_BYTES 32 /* of the files read below, the longest with its slash */
#define NO_VALUE UINT64_MAX
/* Of so many reads, which are some tens of system calls each, one looks whether the process was moved. */
#define READS_OF_A_PLACE 4

/* Where the process's group is. Another thread may fork at any moment: while `looked` is false, the rest
 * means nothing. */
static struct {
    _Atomic bool looked;
    bool v1;
    unsigned reads; /* since anybody looked */
    size_t mount_length;
    bool known; /* the next: as the system names it, empty for the top */
    char group[PATH_BYTES];
    char path[PATH_BYTES]; /* empty: there is none */
} found;

#ifdef HAKMEM_FAULTS
static const char *root = "";

void cgroup_set_root(const char *prefix) {
    root = prefix;
    /* relaxed: nobody else is in here */
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

/* The text up to `end`, never beyond the line, whose other fields then are empty. Fields that end in a space
 * are mountinfo's, which writes odd characters as a backslash and three octal digits. */
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

/* Whether "memory" is one of a list with commas. */
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

/* `path` becomes the two put together, below the tests' root. */
static void join(struct text *path, const char *a, const char *b) {
    truncate_text(path, 0);
    if (root[0] != '\0') {
        text_string(path, root);
    }
    text_string(path, a);
    text_string(path, b);
}

static bool open_own(struct reader *r, const char *path, struct text *scratch) {
    if (root[0] == '\0') {
        return reader_open(r, path);
    }
    join(scratch, path, "");
    return complete(scratch) && reader_open(r, scratch->buffer);
}

/* The path of the own group in the hierarchy that has the memory controller: that of v1 if it is listed with
 * one, else v2's. Empty for the top. A line: "number:controllers:path" */
static bool read_own_group(struct reader *r, struct text *group, struct text *field, bool *v1) {
    bool any = false;
    if (!open_own(r, "/proc/self/cgroup", field)) {
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

/* Whether the path leads out of what the namespace shows. */
static bool leads_out(const char *path) {
    return strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
}

/* Where `group` is below a mount that shows the hierarchy from `top` down; NULL if it cannot be there.
 * `*certain` is set if nothing was guessed. */
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

/* Takes the group under the mount for found if it is there; true if it is just where it was expected. Of a
 * path that is the host's, only the last components may exist in a container, or none: then the mount itself
 * stands for the group. */
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

/* A line: "id parent device root mount-point options tags... - type source options" */
static void search_mounts(struct reader *r, const struct text *group, struct text *field) {
    char mount_buffer[PATH_BYTES];
    struct text mount = TEXT_ON(mount_buffer);
    if (!open_own(r, "/proc/self/mountinfo", field)) {
        return;
    }
    /* The first guess will do, unless a mount turns up that leaves nothing to guess. */
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
    /* relaxed: who reads it next is the same thread, or one that is made later */
    atomic_store_explicit(&found.looked, false, memory_order_relaxed);
}

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
    /* relaxed, then release below: the copy that a child gets must not have `looked` without the rest */
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
    atomic_store_explicit(&found.looked, true, memory_order_release);
    errno = saved_errno;
    return found.path[0] != '\0';
}

/* The number behind `key`, which begins a line of the level's file; behind a '=' without its decimal point.
 * NO_VALUE for anything else: no such file or line, "max", what v1 has for it, and nonsense. */
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

static void read_level(struct text *level, struct cgroup_memory *out) {
    const char *current = "/memory.current";
    const char *droppable = "inactive_file ";
    uint64_t limit;
    if (found.v1) {
        current = "/memory.usage_in_bytes";
        droppable = "total_inactive_file ";
        /* The second is the smallest of all levels, even of those that cannot be seen from here. */
        limit = smaller(read_value(level, "/memory.limit_in_bytes", ""),
                        read_value(level, "/memory.stat", "hierarchical_memory_limit "));
    } else {
        limit = read_value(level, "/memory.high", "");
        if (limit != NO_VALUE) {
            /* .local: memory.events counts the groups inside, too, which may be other programs */
            out->throttled += value_or_0(read_value(level, "/memory.events.local", "high "));
        }
        limit = smaller(limit, read_value(level, "/memory.max", ""));
    }
    if (limit == NO_VALUE) {
        return; /* memory.stat is the one that costs the kernel work */
    }
    uint64_t used = value_or_0(read_value(level, current, ""));
    used -= smaller(used, value_or_0(read_value(level, "/memory.stat", droppable)));
    uint64_t room = limit - smaller(limit, used);
    out->limit_bytes = smaller(out->limit_bytes, limit);
    /* Of several that are over their limits, the innermost. */
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
