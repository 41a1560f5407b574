/* Forks while another thread allocates inside fflush(NULL), that is, holding locks of stdio for which
 * fork waits: the allocation must not wait for the fork in turn. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "children.h"

enum { ROUNDS = 12, MOST_LOOKS = 200 };

static atomic_bool inside_stdio, fork_began;
static pid_t forking_thread;

static void note_fork(void) {
    atomic_store(&fork_began, 1);
}

static int sleeps(pid_t thread) {
    char path[64], stat[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0);
    ssize_t length = read(file, stat, sizeof stat - 1);
    close(file);
    REQUIRE(length > 0);
    stat[length] = '\0';
    const char *name_end = strrchr(stat, ')');
    REQUIRE(name_end != NULL);
    return name_end[2] == 'S';
}

/* Asleep after its atfork handlers began, the forking thread waits for the locks held here. Where fork
 * does without them it never sleeps, and there is nothing to wait for. */
static void let_fork_reach_stdio(void) {
    while (!atomic_load(&fork_began))
        sched_yield();
    for (int looks = 0, asleep = 0; looks < MOST_LOOKS && asleep < 3; looks++) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        asleep = sleeps(forking_thread) ? asleep + 1 : 0;
    }
}

static ssize_t write_and_allocate(void *cookie, const char *bytes, size_t size) {
    (void)bytes;
    atomic_store(&inside_stdio, 1);
    let_fork_reach_stdio();
    use_every_lane(*(size_t *)cookie);
    return (ssize_t)size;
}

static void *flushing_thread(void *argument) {
    FILE *file = fopencookie(argument, "w", (cookie_io_functions_t){.write = write_and_allocate});
    REQUIRE(file != NULL);
    REQUIRE(fputs("something to flush\n", file) >= 0);
    REQUIRE(fflush(NULL) == 0);
    REQUIRE(fclose(file) == 0);
    return NULL;
}

static void child(size_t tag) {
    use_every_lane(tag);
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    REQUIRE(memory != NULL);
    for (int i = 0; i < 5000; i++)
        REQUIRE(fputs("stdio and the allocator work in the child\n", memory) >= 0);
    REQUIRE(fflush(NULL) == 0);
    REQUIRE(fclose(memory) == 0 && length > 0 && text[0] == 's');
    free(text);
}

int main(void) {
    forking_thread = getpid();
    /* Runs before the handlers of libraries loaded earlier. */
    REQUIRE(pthread_atfork(note_fork, NULL, NULL) == 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        note("round", (int)round);
        atomic_store(&inside_stdio, 0);
        atomic_store(&fork_began, 0);
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, flushing_thread, &round) == 0);
        while (!atomic_load(&inside_stdio))
            sched_yield();
        pid_t pid = fork();
        if (pid == 0) {
            child(round);
            _exit(0);
        }
        require_good_end(pid);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    printf("%d forks\n", ROUNDS);
    return 0;
}
