/* options.h: the library's options, for programs that may run on it or not. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "library.h"

struct option_info { /* as in hakmem.h */
    const char *name, *environment, *type, *default_value, *description, *source;
    char value[128];
};

static inline void set_option(const char *name, const char *value) {
    REQUIRE(((int (*)(const char *, const char *))library_function("hak_option_set"))(name, value) == 0);
}

/* A line: name, value, where it came from. */
static inline void print_option(const char *name) {
    struct option_info info;
    int options = ((int (*)(void))library_function("hak_option_count"))();
    int (*option_info)(int, struct option_info *) =
        (int (*)(int, struct option_info *))library_function("hak_option_info");
    for (int i = 0; i < options; i++) {
        REQUIRE(option_info(i, &info) == 0);
        if (strcmp(info.name, name) == 0)
            printf("%s %s %s\n", info.name, info.value, info.source);
    }
}

#endif
