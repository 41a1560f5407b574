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

/* Whether a mapping of a file belongs with the one before it. A file begins with a segment that has no code,
 * or has nothing else before it; segments that follow each other share a page of it at most. */
static bool goes_on(const struct mapping *m, const struct mapping *previous) {
    uintptr_t previous_end = previous->offset + (previous->end - previous->start);
    return strcmp(m->path, previous->path) == 0 && (m->offset != 0 || m->executable) &&
           m->offset + OS_PAGE_BYTES >= previous_end;
}

/* Fills `m` in from its line, "start-end rwxp offset device inode    path". Needs the previous mapping,
 * because a file as a rule has several, all with the address of the first. */
static void parse(struct mapping *m, const struct mapping *previous) {
    const char *at = m->line;
    m->start = number(&at);
    m->end = number(&at);
    m->executable = strnlen(at, 4) == 4 && at[2] == 'x';
    at += strnlen(at, 5);
    m->offset = number(&at);
    const char *path = strchr(m->line, '/');
    m->path = path == NULL ? "" : path;
    bool further = path != NULL && goes_on(m, previous);
    m->load_address = further ? previous->load_address : m->start - m->offset;
}

static void visit_lines(struct reader *r, char lines[2][LINE_BYTES],
                        bool (*visit)(const struct mapping *mapping, void *context), void *context) {
    struct mapping m = {.path = ""};
    bool more = true;
    for (size_t i = 0; more; i = 1 - i) { /* the line before this one is needed, too */
        struct mapping previous = m;
        struct text line = TEXT_ON(lines[i]);
        lines[i][0] = '\0';
        while (reader_next(r) >= 0 && r->last != '\n') {
            text_char(&line, (char)r->last);
        }
        if (line.length == 0) {
            break;
        }
        m.line = lines[i];
        parse(&m, &previous);
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

static int read_hex(struct reader *r, uintptr_t *out) {
    *out = 0;
    for (;;) {
        int c = reader_next(r);
        if (c >= '0' && c <= '9') {
            *out = *out << 4 | (uintptr_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *out = *out << 4 | (uintptr_t)(c - 'a' + 10);
        } else {
            return c;
        }
    }
}

enum os_answer maps_find(uintptr_t address, struct maps_area *out) {
    struct reader r;
    if (!reader_open(&r, MAPS)) {
        return OS_UNKNOWN;
    }
    bool found = false;
    bool any = false;
    /* A line: "start-end rwxp offset device inode    name" */
    while (!found) {
        if (read_hex(&r, &out->start) != '-') {
            break;
        }
        any = true;
        read_hex(&r, &out->end);
        reader_next(&r);
        out->writable = reader_next(&r) == 'w';
        int c = reader_next(&r);
        for (int spaces = 0; c >= 0 && c != '\n' && spaces < 4; c = reader_next(&r)) {
            spaces += c == ' ';
        }
        char name[16];
        struct text text = TEXT_ON(name);
        name[0] = '\0';
        for (; c >= 0 && c != '\n'; c = reader_next(&r)) {
            if (c != ' ') {
                text_char(&text, (char)c);
            }
        }
        found = address >= out->start && address < out->end;
        out->break_heap = strcmp(name, "[heap]") == 0;
        out->stack = strncmp(name, "[stack", 6) == 0;
        out->anonymous = name[0] == '\0' || strncmp(name, "[anon", 5) == 0;
    }
    os_close(r.fd);
    return found ? OS_YES : any ? OS_NO : OS_UNKNOWN;
}
