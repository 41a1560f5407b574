/* Loads the library in a thread that is not the first. Children that this thread and the first one fork
 * answer the signal for the statistics (SIGUSR1): in each, they are written to the standard error. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than enough slow paths until the signal is looked at: each 32nd block of this size is one. */
#define BLOCKS 200000
#define BLOCK_BYTES 100000

static const char *path;
static void *(*allocate)(size_t);
static void (*release)(void *);

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}

static void have_a_child_answer(void) {
    int status;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        raise(SIGUSR1);
        for (int i = 0; i < BLOCKS; i++) {
            void *p = allocate(BLOCK_BYTES);
            REQUIRE(p != NULL);
            release(p);
        }
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static void *load(void *unused) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&allocate = symbol(library, "hak_malloc");
    *(void **)&release = symbol(library, "hak_free");
    have_a_child_answer();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    REQUIRE(argc == 2);
    path = argv[1];
    REQUIRE(pthread_create(&thread, NULL, load, NULL) == 0 && pthread_join(thread, NULL) == 0);
    have_a_child_answer();
    return 0;
}
