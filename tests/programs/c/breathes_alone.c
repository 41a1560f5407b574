/* A program without threads that drops 24 MiB and takes them again, until the library has started its thread:
 * does what only a process of one thread can do, by the way that its argument names, and requires that it is
 * one then, that it can be done, and that the thread comes back later, or never after a filter. "stops":
 * frees all, and waits until the thread and the memory are gone. "never": requires that no thread comes.
 * With "threads" before the way, the program has had a thread that has ended, and gets the library's with
 * that; with "filtered", it was started under a filter that allows everything. "exit" and "libc-exit": ends
 * its only thread with status 3, the latter by libc's own function. */
#include "children.h"
#include "filters.h"
#include "resident.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { BLOCKS = 80, BLOCK_BYTES = 300000, MOST_MS = 20000, NEVER_MS = 1500, ASKS_MS = 500 };

/* The library starts no thread for 50 ms after it has made way, by a clock that is a few behind at times. */
enum { NO_THREAD_MS = 40 };
static int made_way_ms;

static void drop(void) {
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void breathe(void) {
    drop();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = filled(malloc(BLOCK_BYTES), BLOCK_BYTES);
}

/* Breathes until there are so many threads, or for so long. */
static bool breathe_until(long wanted, int most_ms) {
    for (int begin = milliseconds(); milliseconds() - begin < most_ms;) {
        breathe();
        if (threads_now() == wanted)
            return true;
    }
    return false;
}

/* Asks after each block whether this is a process of one thread, which changes nothing: also just after the
 * thread has been started, while it ends, and after it. */
static void be_one_thread_at_each_step(void) {
    drop();
    for (int begin = milliseconds(); milliseconds() - begin < ASKS_MS;) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = filled(malloc(BLOCK_BYTES), BLOCK_BYTES);
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
            blocks[i] = NULL;
            REQUIRE(unshare(CLONE_VM) == 0);
        }
    }
}

/* The child uses the allocator, and has no thread yet. */
static int in_child(void *unused) {
    (void)unused;
    REQUIRE(threads_now() == 1);
    drop();
    for (int i = 0; i < BLOCKS; i++)
        free(filled(malloc(BLOCK_BYTES), BLOCK_BYTES));
    REQUIRE(threads_now() == 1 || milliseconds() - made_way_ms >= NO_THREAD_MS);
    fflush(stderr);
    _Exit(0);
}

static void goes_on_as(pid_t child) {
    if (child == 0)
        in_child(NULL);
    long now = threads_now();
    require_good_end(child);
    REQUIRE(now == 1);
}

static void fork_in_handler(int signal) {
    (void)signal;
    goes_on_as(fork());
}

/* The kernel refuses that to a thread that shares its working directory with another one. */
static void enter_own_mounts(void) {
    int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    REQUIRE(mounts >= 0 && setns(mounts, CLONE_NEWNS) == 0);
    close(mounts);
}

/* By a function in front of which nothing stands. */
static void exit_by_libc(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *found = dlsym(libc, "syscall");
    long (*call)(long, ...);
    memcpy(&call, &found, sizeof call);
    call(SYS_exit, 3l);
}

static void become_filtered(const char *program, const char *how) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    filter_all_threads(allow, 1);
    execl(program, program, how, (char *)NULL);
    REQUIRE(!"executed");
}

static void *end_at_once(void *unused) {
    return unused;
}

static void have_had_a_thread(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_at_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
    while (threads_now() > 1) /* joined, it counts for the kernel until it has had a processor once more */
        sched_yield();
}

static void do_what(const char *how) {
    static char stack[1 << 16];
    made_way_ms = milliseconds();
    if (strcmp(how, "fork") == 0)
        goes_on_as(fork());
    else if (strcmp(how, "handler") == 0)
        raise(SIGUSR1);
    else if (strcmp(how, "clone") == 0)
        goes_on_as(clone(in_child, stack + sizeof stack, SIGCHLD, NULL));
    else if (strcmp(how, "raw-clone") == 0)
        goes_on_as((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
    else if (strcmp(how, "unshare") == 0)
        REQUIRE(unshare(CLONE_NEWUSER) == 0);
    else if (strcmp(how, "unshare-each-time") == 0)
        be_one_thread_at_each_step();
    else if (strcmp(how, "raw-unshare") == 0)
        REQUIRE(syscall(SYS_unshare, CLONE_NEWUSER) == 0);
    else if (strcmp(how, "setns") == 0)
        enter_own_mounts();
    else if (strcmp(how, "no-clone3") == 0)
        REQUIRE(syscall(SYS_clone3, (void *)8, 64) == -1 && errno == EFAULT);
    else if (strcmp(how, "exit") == 0)
        syscall(SYS_exit, 3);
    else if (strcmp(how, "libc-exit") == 0)
        exit_by_libc();
    else
        REQUIRE(strcmp(how, "filter") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(threads_now() == 1);
}

int main(int argc, char **argv) {
    const char *before = argc == 3 ? argv[1] : "";
    const char *how = argv[argc - 1];
    if (strcmp(before, "filtered") == 0)
        become_filtered(argv[0], how);
    else if (strcmp(before, "threads") == 0)
        have_had_a_thread();
    else
        REQUIRE(argc == 2);
    long start_kb = resident_kb();
    if (strcmp(how, "never") == 0) {
        REQUIRE(!breathe_until(2, NEVER_MS));
        return 0;
    }
    if (strcmp(how, "setns") == 0)
        REQUIRE(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    signal(SIGUSR1, fork_in_handler);
    REQUIRE(breathe_until(2, MOST_MS));
    if (strcmp(how, "stops") == 0) {
        drop();
        REQUIRE(idle_until_little_is_left(start_kb) <= MAY_STAY_KB);
        for (int begin = milliseconds(); threads_now() > 1; sleep_ms(10))
            REQUIRE(milliseconds() - begin < MOST_MS);
        return 0;
    }
    do_what(how);
    bool comes_back = strcmp(how, "filter") != 0;
    REQUIRE(breathe_until(2, comes_back ? MOST_MS : NEVER_MS) == comes_back);
    return 0;
}
