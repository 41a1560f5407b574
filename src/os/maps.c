#include "os/maps.h"

#include "os/os.h"
#include "os/pages.h"
#include "os/reader.h"

#include <limits.h>
#include <string.h>

/* Not that of the process (/proc/self), which is empty where its first thread has ended. */
#define MAPS "/proc/thread-self/maps"
/* Of a line: the longest path, and what stands before and behind it. One that is longer is cut off. */
#define LINE_BYTES (PATH_MAX + 128)

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

static void visit_lines(struct reader *r, char lines[2][LINE_BYTES],
                        bool (*visit)(const struct mapping *mapping, void *context), void *context) {
    struct mapping m = {.path = ""};
    bool more = true;
    for (size_t i = 0; more; i = 1 - i) { /* the line before this one is needed, too */
        const char *previous_path = m.path;
        struct text line = TEXT_ON(lines[i]);
        lines[i][0] = '\0';
        while (reader_next(r) >= 0 && r->last != '\n') {
            text_char(&line, (char)r->last);
        }
        if (line.length == 0) {
            break;
        }
        m.line = lines[i];
        parse(&m, previous_path, m.load_address);
        more = visit(&m, context);
    }
}

void maps_visit(bool (*visit)(const struct mapping *mapping, void *context), void *context) {
    struct reader r;
    char(*lines)[LINE_BYTES] = pages_take(2 * sizeof *lines);
    if (lines != NULL && reader_open(&r, MAPS)) {
        visit_lines(&r, lines, visit, context);
        os_close(r.fd);
    }
    pages_give(lines, 2 * sizeof *lines);
}
