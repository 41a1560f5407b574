/* A C program that loads a C++ plugin with RTLD_LOCAL, has it check itself, and ends: plugin_stays <plugin>.
 */
#include <dlfcn.h>

#include "check.h"

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    REQUIRE(plugin != NULL);
    int (*self_check)(void) = (int (*)(void))dlsym(plugin, "plugin_self_check");
    REQUIRE(self_check != NULL);
    REQUIRE(self_check() == 0);
    puts("checked");
    return 0;
}
