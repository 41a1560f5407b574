/* Misuses the allocator in the way that its argument names; the library must abort the process with
 * one line. Reaches its end, with status 3, only where the misuse went unnoticed. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library.h"

/* The compiler would see and refuse each of these without the detour. */
static void *volatile victim;
static volatile size_t requested;

static void *allocate(size_t size) {
    requested = size;
    void *block = malloc(requested);
    REQUIRE(block != NULL);
    memset(block, 0x11, size);
    victim = block;
    return victim;
}

static void free_offset(size_t offset) {
    free((unsigned char *)victim + offset);
}

static void flush(void) {
    size_t (*flush_all)(void) = (size_t(*)(void))library_function("hak_tiny_magazine_flush_all");
    flush_all();
}

static void double_free(size_t size) {
    allocate(size);
    free_offset(0);
    free_offset(0);
    flush();
}

/* Without a flush: ordinary frees that follow must bring it to light. */
static void double_free_then_traffic(void) {
    enum { BLOCKS = 100000 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(64);
    victim = blocks[BLOCKS / 2];
    free_offset(0);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void free_inside(size_t size, size_t offset) {
    allocate(size);
    free_offset(offset);
    flush();
}

static void *free_twice_and_flush(void *unused) {
    free_offset(0);
    free_offset(0);
    flush();
    return unused;
}

static void double_free_by_another_thread(size_t size) {
    allocate(size);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_twice_and_flush, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static volatile sig_atomic_t handled;

static void *free_twice_and_sleep(void *unused) {
    allocate(64);
    free_offset(0);
    free_offset(0);
    pause();
    return unused;
}

/* The library's thread finds it, in the caches of a thread that waits for work. */
static void double_free_by_a_thread_that_sleeps(void) {
    enum { BLOCKS = 64, SECONDS = 20 };
    static void *blocks[BLOCKS];
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_twice_and_sleep, NULL) == 0);
    usleep(100000);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(100000);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < SECONDS * 20; i++) {
        allocate(3000000);
        free_offset(0);
        usleep(50000);
        REQUIRE(!handled); /* whose handler of SIGABRT returns does not go on */
    }
}

static void report_and_die(int number) {
    char *line = malloc(100);
    REQUIRE(line != NULL);
    fputs(strcpy(line, "handled by the program\n"), stderr);
    free(line);
    signal(number, SIG_DFL);
    raise(number);
}

static void return_from_handler(int number) {
    handled = number;
}

static void found_while_a_handler_reports(void) {
    signal(SIGABRT, report_and_die);
    double_free_by_a_thread_that_sleeps();
}

static void found_while_a_handler_returns(void) {
    signal(SIGABRT, return_from_handler);
    double_free_by_a_thread_that_sleeps();
}

/* A child that the handler forks errs in its turn, and the handler reports both. */
static void fork_and_report(int number) {
    static int children;
    if (children++ == 0) {
        pid_t child = fork();
        if (child == 0) {
            sigset_t abort_only;
            sigemptyset(&abort_only);
            sigaddset(&abort_only, SIGABRT);
            REQUIRE(pthread_sigmask(SIG_UNBLOCK, &abort_only, NULL) == 0);
            double_free_by_a_thread_that_sleeps();
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    report_and_die(number);
}

static void found_in_a_child_of_a_handler(void) {
    signal(SIGABRT, fork_and_report);
    double_free_by_a_thread_that_sleeps();
}

static void free_on_stack(void) {
    _Alignas(64) unsigned char local[256] = {0};
    victim = local;
    free_offset(64);
    flush();
}

static void free_global(void) {
    static _Alignas(64) unsigned char global[256];
    victim = global;
    free_offset(64);
    flush();
}

static void free_of_code(void) {
    victim = (void *)(uintptr_t)free_of_code;
    free_offset(0);
    flush();
}

/* Nothing is there, and no file can be opened that says so. */
static void free_of_nothing_without_descriptors(void) {
    const struct rlimit none = {0, 0};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    victim = (void *)(uintptr_t)0xdeadbeef0;
    free_offset(0);
    flush();
}

/* What stands in front of the pointer looks as in front of a block of a second arena of libc's. */
static void free_in_a_mapping(void) {
    const size_t arena = (size_t)64 << 20;
    char *map = mmap(NULL, 4 * arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map != MAP_FAILED);
    victim = map + 2 * arena;
    ((size_t *)victim)[-1] = 36;
    free_offset(0);
    flush();
}

static void realloc_inside(size_t size, size_t offset) {
    allocate(size);
    victim = realloc((unsigned char *)victim + offset, size * 2);
    flush();
}

static const struct {
    const char *name;
    void (*with_size)(size_t);
    void (*inside)(size_t, size_t);
    void (*plain)(void);
    size_t size, offset;
} misuses[] = {
    {"double_free_tiny", double_free, NULL, NULL, 64, 0},
    {"double_free_mid", double_free, NULL, NULL, 20000, 0},
    {"double_free_large", double_free, NULL, NULL, 500000, 0},
    {"double_free_huge", double_free, NULL, NULL, 5 << 20, 0},
    {"double_free_found_by_traffic", NULL, NULL, double_free_then_traffic, 0, 0},
    {"double_free_by_another_thread", double_free_by_another_thread, NULL, NULL, 64, 0},
    {"free_inside_tiny", NULL, free_inside, NULL, 64, 16},
    {"free_inside_tiny_by_a_byte", NULL, free_inside, NULL, 64, 1},
    {"free_inside_mid", NULL, free_inside, NULL, 20000, 4096},
    {"free_inside_large", NULL, free_inside, NULL, 100000, 65536},
    {"free_inside_large_by_16", NULL, free_inside, NULL, 500000, 16},
    {"free_inside_large_at_end", NULL, free_inside, NULL, 2000000, 1900000},
    {"free_inside_huge", NULL, free_inside, NULL, 5 << 20, 2 << 20},
    {"free_inside_huge_by_16", NULL, free_inside, NULL, 5 << 20, 16},
    {"realloc_inside_tiny", NULL, realloc_inside, NULL, 64, 16},
    {"realloc_inside_large", NULL, realloc_inside, NULL, 500000, 65536},
    {"realloc_inside_huge", NULL, realloc_inside, NULL, 5 << 20, 2 << 20},
    {"double_free_by_a_thread_that_sleeps", NULL, NULL, double_free_by_a_thread_that_sleeps, 0, 0},
    {"found_while_a_handler_reports", NULL, NULL, found_while_a_handler_reports, 0, 0},
    {"found_while_a_handler_returns", NULL, NULL, found_while_a_handler_returns, 0, 0},
    {"found_in_a_child_of_a_handler", NULL, NULL, found_in_a_child_of_a_handler, 0, 0},
    {"free_on_stack", NULL, NULL, free_on_stack, 0, 0},
    {"free_of_nothing_without_descriptors", NULL, NULL, free_of_nothing_without_descriptors, 0, 0},
    {"free_in_a_mapping", NULL, NULL, free_in_a_mapping, 0, 0},
    {"free_global", NULL, NULL, free_global, 0, 0},
    {"free_of_code", NULL, NULL, free_of_code, 0, 0},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        if (argc != 2 || strcmp(argv[1], misuses[i].name) != 0)
            continue;
        if (misuses[i].plain)
            misuses[i].plain();
        else if (misuses[i].inside)
            misuses[i].inside(misuses[i].size, misuses[i].offset);
        else
            misuses[i].with_size(misuses[i].size);
        return 3;
    }
    fprintf(stderr, "usage: misuse <kind>\n");
    return 2;
}
