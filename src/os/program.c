#define _GNU_SOURCE
#include "os/program.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/loader.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static char name[64];

OFTEN void os_note_program_name(const char *invoked) {
    struct text copy = TEXT_ON(name);
    const char *folder_end = strrchr(invoked, '/');
    text_string(&copy, folder_end == NULL ? invoked : folder_end + 1);
}

OFTEN const char *os_program_name(void) {
    return name[0] != '\0' ? name : program_invocation_short_name;
}

/* relaxed everywhere: a hint that needs nothing of what came before it */
static _Atomic bool main_begun;

bool os_main_has_begun(void) {
    return atomic_load_explicit(&main_begun, memory_order_relaxed);
}

static void note_main(void) {
    atomic_store_explicit(&main_begun, true, memory_order_relaxed);
}

#ifdef HAKMEM_SHARED
typedef int main_function(int, char **, char **);
static main_function *program_main;

bool os_started_the_program(void) {
    return program_main != NULL;
}

static int noted_main(int argc, char **argv, char **environment) {
    note_main();
    return program_main(argc, argv, environment);
}

/* Stands in front of glibc's function, which a program's first instructions call, and which calls the
 * constructors and then main: there is no other way to learn when main begins. */
__attribute__((visibility("default"))) int __libc_start_main(main_function *main, int argc, char **argv,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*loader_fini)(void), void *stack_end) {
    typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                               void *);
    start_function *next = (start_function *)os_next_function("__libc_start_main");
    program_main = main;
    return next(noted_main, argc, argv, init, fini, loader_fini, stack_end);
}

/* libc sets `environ` after the constructors of a library that is loaded with the program, which come
 * before its own: a library that finds it was loaded later, into a program that runs. */
__attribute__((constructor)) static void note_late_load(void) {
    if (environ != NULL) {
        note_main();
    }
}
#else
bool os_started_the_program(void) {
    return true;
}

/* In a static library: a constructor without a priority runs after those of the files that the program's
 * linker was given before the archive. */
__attribute__((constructor)) static void note_own_constructor(void) {
    note_main();
}
#endif

/* Weak: glibc has it from 2.32 on. */
extern __attribute__((weak)) char __libc_single_threaded;

bool os_program_has_threads(void) {
    return &__libc_single_threaded == NULL || __libc_single_threaded == 0;
}
