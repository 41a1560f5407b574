/* Loads a plugin with RTLD_DEEPBIND, by its bare name, and exchanges blocks with it: deep_bind_host <plugin>
 * <rounds>. Prints whether both have the same malloc. */
#include <dlfcn.h>

#include "check.h"

enum { BLOCK = 700 };

static void *symbol(void *plugin, const char *name) {
    void *found = dlsym(plugin, name);
    REQUIRE(found != NULL);
    return found;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    long rounds = strtol(argv[2], NULL, 10);
    /* Found by this program's RUNPATH, which is the caller's of dlopen. */
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!plugin)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(plugin != NULL);
    void *(*give)(size_t) = (void *(*)(size_t))symbol(plugin, "give");
    void (*take)(void *) = (void (*)(void *))symbol(plugin, "take");
    void *(*its_malloc)(void) = (void *(*)(void))symbol(plugin, "its_malloc");
    for (long round = 0; round < rounds; round++) {
        char *given = give(BLOCK);
        REQUIRE(given != NULL);
        fill_pattern(given, BLOCK, 5);
        given = realloc(given, 2 * BLOCK);
        REQUIRE(given != NULL);
        REQUIRE(has_pattern(given, BLOCK, 5));
        free(given);
        void *taken = malloc(BLOCK);
        REQUIRE(taken != NULL);
        take(taken);
    }
    printf("%s malloc\n", its_malloc() == (void *)malloc ? "one" : "another");
    REQUIRE(dlclose(plugin) == 0);
    REQUIRE(dlopen("no such library", RTLD_NOW | RTLD_DEEPBIND) == NULL);
    REQUIRE(strstr(dlerror(), "no such library") != NULL);
    return 0;
}
