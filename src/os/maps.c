#include "os/maps.h"

#include "os/os.h"
#include "os/reader.h"

#include <string.h>

/* Not that of the process (/proc/self), which is empty where its first thread has ended. */
#define MAPS "/proc/thread-self/maps"

void maps_copy(struct sink *sink) {
    struct reader r;
    if (reader_open(&r, MAPS)) {
        while (reader_next(&r) >= 0) {
            sink_char(sink, (char)r.last);
        }
        os_close(r.fd);
    }
}

/* Reads the hexadecimal number at `*at`, and steps over it and the byte behind it. */
static uintptr_t number(const char **at) {
    uintptr_t value = 0;
    for (;; (*at)++) {
        char c = **at;
        if (c >= '0' && c <= '9') {
            value = value << 4 | (uintptr_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uintptr_t)(c - 'a' + 10);
        } else {
            *at += c != '\0';
            return value;
        }
    }
}

/* Fills `m` in from its line, "start-end rwxp offset device inode    path". Needs the previous mapping's path
 * and load address, because a file as a rule has several mappings, all with the address of the first. */
static void parse(struct mapping *m, const char *previous_path, uintptr_t previous_load_address) {
    const char *at = m->line;
    m->start = number(&at);
    m->end = number(&at);
    m->executable = strnlen(at, 4) == 4 && at[2] == 'x';
    at += strnlen(at, 5);
    uintptr_t offset = number(&at);
    const char *path = strchr(m->line, '/');
    m->path = path == NULL ? "" : path;
    bool goes_on = path != NULL && strcmp(path, previous_path) == 0;
    m->load_address = goes_on ? previous_load_address : m->start - offset;
}

void maps_visit(bool (*visit)(const struct mapping *mapping, void *context), void *context) {
    struct reader r;
    if (!reader_open(&r, MAPS)) {
        return;
    }
    struct mapping m = {0};
    char previous_path[sizeof m.line] = "";
    bool more = true;
    while (more) {
        struct text line = TEXT_ON(m.line);
        uintptr_t load_address = m.load_address;
        m.line[0] = '\0';
        while (reader_next(&r) >= 0 && r.last != '\n') {
            text_char(&line, (char)r.last);
        }
        if (line.length == 0) {
            break;
        }
        parse(&m, previous_path, load_address);
        memcpy(previous_path, m.path, strlen(m.path) + 1);
        more = visit(&m, context);
    }
    os_close(r.fd);
}
