#define _GNU_SOURCE
#include "os/environment.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"
#include "os/reader.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static char **given_environment;

void os_set_environment(char **environment) {
    given_environment = environment;
}

static char **known_environment(void) {
    return environ != NULL ? environ : given_environment;
}

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

uintptr_t os_main_stack_end(void) {
    return (uintptr_t)given_environment;
}
