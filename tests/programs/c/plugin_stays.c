/* A C program that loads C++ plugins with RTLD_LOCAL, has each check itself, the last one first, and ends:
 * plugin_stays <plugin>... */
#include <dlfcn.h>

#include "check.h"

enum { PLUGINS_MOST = 4 };

int main(int argc, char **argv) {
    void *plugins[PLUGINS_MOST];
    REQUIRE(argc > 1 && argc - 1 <= PLUGINS_MOST);
    for (int i = 0; i < argc - 1; i++) {
        plugins[i] = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL);
        REQUIRE(plugins[i] != NULL);
    }
    for (int i = argc - 2; i >= 0; i--) {
        int (*self_check)(void) = (int (*)(void))dlsym(plugins[i], "plugin_self_check");
        REQUIRE(self_check != NULL);
        REQUIRE(self_check() == 0);
    }
    puts("checked");
    return 0;
}
