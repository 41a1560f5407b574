/* A C program that loads a C++ plugin with RTLD_LOCAL, uses it and unloads it, again and again, also
 * from threads: plugin_host <plugin> <rounds>. Blocks cross the border both ways. */
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 2, BLOCK = 5000 };

static const char *plugin_path;
static long rounds;

static void *symbol(void *plugin, const char *name) {
    void *found = dlsym(plugin, name);
    REQUIRE(found != NULL);
    return found;
}

static void *load_use_unload(void *alone) {
    for (long round = 0; round < rounds; round++) {
        void *plugin = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
        if (!plugin)
            fprintf(stderr, "%s\n", dlerror());
        REQUIRE(plugin != NULL);
        int (*self_check)(void) = (int (*)(void))symbol(plugin, "plugin_self_check");
        void *(*give)(size_t) = (void *(*)(size_t))symbol(plugin, "plugin_give_malloc");
        void (*take)(void *) = (void (*)(void *))symbol(plugin, "plugin_take_malloc");
        REQUIRE(self_check() == 0);
        void *given = give(BLOCK);
        REQUIRE(given != NULL);
        fill_pattern(given, BLOCK, 5);
        void *taken = malloc(BLOCK);
        REQUIRE(taken != NULL);
        take(taken);
        REQUIRE(dlclose(plugin) == 0);
        /* Really unloaded, which only the sole user of the plugin can tell. */
        if (alone)
            REQUIRE(dlopen(plugin_path, RTLD_NOW | RTLD_NOLOAD) == NULL);
        REQUIRE(has_pattern(given, BLOCK, 5));
        free(given);
    }
    return alone;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    plugin_path = argv[1];
    rounds = strtol(argv[2], NULL, 10);
    load_use_unload(&rounds);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, load_use_unload, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%ld rounds\n", rounds * (THREADS + 1));
    return 0;
}
