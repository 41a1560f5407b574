/* A program that enters a sandbox: what it may not do there, the library must not do behind its back.
 * "exit": opening files is refused when it ends.
 * "refuse": from the start, opening files is refused. "kill": once statistics are published, all but a few
 * calls that an allocator needs end the process. "least": so do all but those that docs/memory.md says it
 * cannot do without; the program uses every lane there, with a second thread, and ends as others do. */
#include "check.h"
#include "filters.h"

#include <pthread.h>
#include <stddef.h>

#define ALLOW(number)                                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void refuse_files(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    filter_all_threads(filter, sizeof filter / sizeof *filter);
}

static void allow_little(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise),
        ALLOW(SYS_mincore),
        ALLOW(SYS_mremap),
        ALLOW(SYS_futex),
        ALLOW(SYS_getpid),
        ALLOW(SYS_clock_gettime),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    filter_all_threads(filter, sizeof filter / sizeof *filter);
}

static void allow_least(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise),
        ALLOW(SYS_mremap),
        ALLOW(SYS_futex),
        /* The program's own. */
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    filter_all_threads(filter, sizeof filter / sizeof *filter);
}

static void churn(int for_ms) {
    static void *blocks[1000];
    uint32_t random = 4711;
    for (int begin = milliseconds(); milliseconds() - begin < for_ms;) {
        for (int i = 0; i < 2000; i++) {
            void **block = &blocks[next_random(&random) % 1000];
            free(*block);
            *block = malloc(next_random(&random) % 3000);
            REQUIRE(*block != NULL);
        }
    }
}

enum { SLOTS = 64, ROUNDS = 4000, LARGEST_BYTES = 12 << 20 };

/* Blocks of all lanes taken, filled, grown, shortened and freed. */
static void use_every_lane(uint32_t random) {
    static _Thread_local char *blocks[SLOTS];
    for (int i = 0; i < ROUNDS; i++) {
        char **block = &blocks[next_random(&random) % SLOTS];
        size_t bytes = 1 + (size_t)(next_random(&random) % LARGEST_BYTES) / (1u << next_random(&random) % 20);
        if (next_random(&random) % 2 == 0) {
            free(*block);
            *block = malloc(bytes);
            REQUIRE(*block != NULL);
            memset(*block, 1, bytes);
        } else {
            *block = realloc(*block, bytes);
            REQUIRE(*block != NULL);
            (*block)[bytes - 1] = 1;
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Fills each step of a block that grows by small ones. */
static void grow_by_steps(void) {
    size_t bytes = 4 << 20;
    char *block = malloc(bytes);
    REQUIRE(block != NULL);
    memset(block, 1, bytes);
    while (bytes < 64 << 20) {
        size_t more = bytes / 16;
        block = realloc(block, bytes + more);
        REQUIRE(block != NULL);
        memset(block + bytes, 1, more);
        bytes += more;
    }
    free(block);
}

/* Fills buffers of one size, so many that each slab of them tells of the next. */
static void fill_buffers(void) {
    enum { BUFFERS = 3000, BYTES = 20000 };
    static char *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(BYTES);
        REQUIRE(buffers[i] != NULL);
        memset(buffers[i], 1, BYTES);
    }
    for (int i = 0; i < BUFFERS; i++) {
        free(buffers[i]);
    }
}

static pthread_barrier_t in_sandbox, used;

static void *second_thread(void *unused) {
    use_every_lane(814);
    pthread_barrier_wait(&in_sandbox);
    use_every_lane(815);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&used); /* never: it is there when the program ends */
    return unused;
}

static void live_in_least(void) {
    pthread_t thread;
    REQUIRE(pthread_barrier_init(&in_sandbox, NULL, 2) == 0 && pthread_barrier_init(&used, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, second_thread, NULL) == 0);
    use_every_lane(4711); /* what it has learnt before must not make it ask afterwards */
    grow_by_steps();
    fill_buffers();
    allow_least();
    pthread_barrier_wait(&in_sandbox);
    use_every_lane(42);
    grow_by_steps();
    fill_buffers();
    pthread_barrier_wait(&used);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    if (strcmp(argv[1], "least") == 0) {
        live_in_least();
        REQUIRE(write(1, "done\n", 5) == 5);
        return 0;
    }
    if (strcmp(argv[1], "exit") == 0) {
        refuse_files();
        return 0;
    }
    if (strcmp(argv[1], "refuse") == 0) {
        refuse_files();
        churn(300);
    } else {
        churn(1000); /* by then they are, also on a busy machine */
        allow_little();
        churn(500);
    }
    static const char done[] = "done\n";
    REQUIRE(write(1, done, sizeof done - 1) == sizeof done - 1);
    syscall(SYS_exit_group, 0); /* without what libraries do at exit */
}
