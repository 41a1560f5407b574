#define _GNU_SOURCE
#include "os/thread.h"

#include "base/bits.h"
#include "os/sanitized.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Whether main has begun -------------------------------------------------------------------- */

/* relaxed: a hint that needs nothing of what came before it */
static _Atomic bool main_begun;

bool os_main_has_begun(void) {
    return atomic_load_explicit(&main_begun, memory_order_relaxed);
}

static void note_main(void) {
    atomic_store_explicit(&main_begun, true, memory_order_relaxed);
}

#if defined(HAKMEM_STANDARD_NAMES) && !defined(HAKMEM_STATIC)
typedef int main_function(int, char **, char **);
static main_function *program_main;

static int noted_main(int argc, char **argv, char **environment) {
    note_main();
    return program_main(argc, argv, environment);
}

/* glibc's, which a program's first instructions call and which calls constructors and then main. Ours stands
 * in front of it: there is no other way to learn of that moment. */
__attribute__((visibility("default"))) int __libc_start_main(main_function *main, int argc, char **argv,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*loader_fini)(void), void *stack_end) {
    typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void),
                               void *);
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");
    start_function *next;
    memcpy(&next, &found, sizeof next);
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
/* Linked in: without a priority, this comes behind the constructors of the files named before the archive. */
__attribute__((constructor)) static void note_own_constructor(void) {
    note_main();
}
#endif

/* ---- The thread ---------------------------------------------------------------------------------- */

#if SANITIZED
/* Sanitizers must see each thread begin, and the allocator under test is not the one that libc uses. */
static void *run_in_pthread(void *run) {
    void (*function)(void);
    memcpy(&function, &run, sizeof function);
    function();
    return NULL;
}

bool os_thread_start(void (*run)(void)) {
    pthread_t id;
    void *argument;
    memcpy(&argument, &run, sizeof argument);
    return pthread_create(&id, NULL, run_in_pthread, argument) == 0 && pthread_detach(id) == 0;
}

void os_thread_lost_by_fork(void) {
}
#else

#define STACK_BYTES ((size_t)16 << 10)
/* Room for thread-local variables on both sides of the thread pointer, as architectures differ; what lies
 * there otherwise belongs to libc, which never hears of this thread. */
#define TLS_HALF_BYTES ((size_t)4 << 10)

static struct {
    _Alignas(64) char stack[STACK_BYTES];
    _Alignas(64) char tls[2 * TLS_HALF_BYTES];
    /* The kernel sets it to 0 when the thread no longer uses the above: acquire pairs with that. */
    _Atomic pid_t id;
} place;

static int run_in_thread(void *run) {
    void (*function)(void);
    memcpy(&function, &run, sizeof function);
    syscall(SYS_prctl, PR_SET_NAME, "hakmem", 0, 0, 0);
    function();
    return 0;
}

static bool within_reach(const void *variable) {
    intptr_t distance = (intptr_t)variable - (intptr_t)__builtin_thread_pointer();
    return distance > -(intptr_t)TLS_HALF_BYTES && distance < (intptr_t)(TLS_HALF_BYTES - CACHE_LINE_BYTES);
}

/* The one before has said that it ends: it is a matter of microseconds. */
static bool wait_until_unused(void) {
    for (int i = 0; i < 10000; i++) {
        if (atomic_load_explicit(&place.id, memory_order_acquire) == 0) {
            return true;
        }
        syscall(SYS_sched_yield);
    }
    return false;
}

bool os_thread_start(void (*run)(void)) {
    int saved_errno = errno;
    bool started = false;
    if (within_reach(&errno) && wait_until_unused()) {
        char *pointer = place.tls + TLS_HALF_BYTES;
        memset(place.tls, 0, sizeof place.tls);
        memcpy(pointer, &pointer, sizeof pointer); /* x86-64 finds its thread pointer there */
        void *argument;
        memcpy(&argument, &run, sizeof argument);
        uint64_t all = ~(uint64_t)0;
        uint64_t before;
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof all);
        int id = clone(run_in_thread, place.stack + STACK_BYTES,
                       CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                           CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                       argument, &place.id, pointer, &place.id);
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
        started = id > 0;
    }
    errno = saved_errno;
    return started;
}

void os_thread_lost_by_fork(void) {
    atomic_store_explicit(&place.id, 0, memory_order_relaxed); /* there is no other thread yet */
}
#endif
