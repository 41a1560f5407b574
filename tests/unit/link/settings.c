/* A program with settings of its own, linked with the static or the shared library: they are in force. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

const char *hakmem_conf = "profile=memory,retain_percent=7";

static void expect(const char *name, const char *value, const char *source) {
    hak_option_info_t info;
    for (int i = 0; i < hak_option_count(); i++) {
        if (hak_option_info(i, &info) == 0 && strcmp(info.name, name) == 0) {
            if (strcmp(info.value, value) == 0 && strcmp(info.source, source) == 0) {
                return;
            }
            fprintf(stderr, "settings: broken: %s is %s (%s) and not %s (%s)\n", name, info.value,
                    info.source, value, source);
            exit(1);
        }
    }
    fprintf(stderr, "settings: broken: no option %s\n", name);
    exit(1);
}

int main(void) {
    expect("profile", "memory", "hakmem_conf");
    expect("retain_percent", "7", "hakmem_conf");
    expect("retain_grace", "0", "profile");
    expect("reclaim", "1", "default");
    puts("settings: fine");
    return 0;
}
