#define _GNU_SOURCE
#include "base/bits.h"
#include "base/text.h"
#include "os/asleep.h"
#include "os/os.h"
#include "os/reader.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not those of the process (/proc/self), which are empty where its first thread has ended. */
#define OWN_STATM "/proc/thread-self/statm"
#define OWN_MAPS "/proc/thread-self/maps"

COLD size_t os_resident_bytes(void) {
    struct reader r;
    if (!reader_open(&r, OWN_STATM)) {
        return 0;
    }
    size_t fields[2] = {0, 0};
    for (int field = 0; field < 2; field++) {
        int c;
        while ((c = reader_next(&r)) >= '0' && c <= '9') {
            fields[field] = fields[field] * 10 + (size_t)(c - '0');
        }
    }
    os_close(r.fd);
    return fields[1] * OS_PAGE_BYTES;
}

int os_thread_id(void) {
    return (int)syscall(SYS_gettid);
}

extern char **environ;
static char **given_environment;

void os_set_environment(char **environment) {
    given_environment = environment;
}

static char **known_environment(void) {
    return environ != NULL ? environ : given_environment;
}

/* Not in a program with more rights than whoever started it (setuid, file capabilities): its environment is
 * that user's, who shall not name the files that it writes. */
static bool environment_is_trusted(void) {
    return getauxval(AT_SECURE) == 0;
}

bool os_visit_environment(const char *prefix, void (*visit)(const char *name, size_t length)) {
    if (!environment_is_trusted()) {
        return true;
    }
    size_t length = strlen(prefix);
    for (char **entry = known_environment(); entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, prefix, length) == 0) {
            visit(*entry, strcspn(*entry, "="));
        }
    }
    return known_environment() != NULL;
}

COLD const char *os_environment(const char *name, char *buffer, size_t capacity) {
    size_t name_length = strlen(name);
    struct text value = {.buffer = buffer, .capacity = capacity, .length = 0};
    buffer[0] = '\0';
    if (!environment_is_trusted()) {
        return NULL;
    }
    char **known = known_environment();
    if (known != NULL) {
        for (char **entry = known; *entry != NULL; entry++) {
            if (strncmp(*entry, name, name_length) == 0 && (*entry)[name_length] == '=') {
                text_string(&value, *entry + name_length + 1);
                return buffer;
            }
        }
        return NULL;
    }
    /* The loader may allocate before anyone knows the environment; the kernel does. */
    struct reader r;
    if (!reader_open(&r, "/proc/self/environ")) {
        return NULL;
    }
    const char *found = NULL;
    for (int c = reader_next(&r); c >= 0 && found == NULL; c = reader_next(&r)) {
        size_t matched = 0;
        while (c > 0 && matched < name_length && c == (unsigned char)name[matched]) {
            matched++;
            c = reader_next(&r);
        }
        bool is_it = matched == name_length && c == '=';
        while (c > 0) {
            c = reader_next(&r);
            if (is_it && c > 0) {
                text_char(&value, (char)c);
            }
        }
        if (is_it) {
            found = buffer;
        }
    }
    os_close(r.fd);
    return found;
}

RARE static int read_hex(struct reader *r, uintptr_t *out) {
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

RARE enum os_answer os_find_mapping(uintptr_t address, struct os_mapping *out) {
    struct reader r;
    if (!reader_open(&r, OWN_MAPS)) {
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

uintptr_t os_main_stack_end(void) {
    return (uintptr_t)given_environment;
}
