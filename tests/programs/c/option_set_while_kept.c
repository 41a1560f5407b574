/* Has free memory kept, sets an option that decides what is kept, and has it kept no more. Prints the option
 * and another one, which it has left alone: as they are then. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

struct option_info { /* as in hakmem.h */
    const char *name, *environment, *type, *default_value, *description, *source;
    char value[128];
};
typedef int count_function(void);
typedef int info_function(int, struct option_info *);
typedef int set_function(const char *, const char *);

static void *function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    REQUIRE(found != NULL);
    return found;
}

static void print(const char *name) {
    struct option_info info;
    int options = ((count_function *)function("hak_option_count"))();
    for (int i = 0; i < options; i++) {
        REQUIRE(((info_function *)function("hak_option_info"))(i, &info) == 0);
        if (strcmp(info.name, name) == 0) {
            puts(info.value);
        }
    }
}

int main(void) {
    REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    REQUIRE(((set_function *)function("hak_option_set"))("decay_ms", "100") == 0);
    REQUIRE(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1);
    print("decay_ms");
    print("retain_min");
    return 0;
}
