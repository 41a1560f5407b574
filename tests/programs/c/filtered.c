/* Two threads that breathe, so that holes are given back all the time, many by one call where that is
 * possible: prints whether it is. "free": to their end. Others: after half of the time that call is
 * forbidden, and ends the process: "all" to all threads, in libseccomp's way, "own" to the one that has
 * installed the filter, "syscall" to all, by that function alone. "layers" forbids getpid before, by a filter
 * of its own, and then ends. */
#include "check.h"
#include "filters.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { SLOTS = 4000, LARGEST_BYTES = 16000, HALF_MS = 400, PROCESS_MADVISE = 440, THIS_PROCESS = -10000 };

/* Fills all slots, and empties nine of ten in no order. */
static void breathe_once(void **slots, uint32_t *random) {
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i] == NULL) {
            size_t bytes = 1 + next_random(random) % LARGEST_BYTES;
            slots[i] = malloc(bytes);
            REQUIRE(slots[i] != NULL);
            memset(slots[i], 1, bytes);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        int other = (int)(next_random(random) % SLOTS);
        void *slot = slots[i];
        slots[i] = slots[other];
        slots[other] = slot;
    }
    for (int i = 0; i < SLOTS * 9 / 10; i++) {
        free(slots[i]);
        slots[i] = NULL;
    }
}

static void breathe_for_half(uint32_t random) {
    static _Thread_local void *slots[SLOTS];
    for (int begin = milliseconds(); milliseconds() - begin < HALF_MS;) {
        breathe_once(slots, &random);
    }
}

static pthread_barrier_t filtered;

static void *second_thread(void *unused) {
    breathe_for_half(814);
    pthread_barrier_wait(&filtered);
    breathe_for_half(815);
    return unused;
}

static bool many_can_be_purged_by_one_call(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec range = {page, 4096};
    bool can = syscall(PROCESS_MADVISE, THIS_PROCESS, &range, 1, MADV_DONTNEED, 0) == 4096;
    munmap(page, 4096);
    return can;
}

static int filter_all_by_syscall(const struct sock_fprog *filter) {
    /* Compilers leave anything in the upper half, which the kernel does not read. */
    long mode = SECCOMP_SET_MODE_FILTER | (1l << 32);
    return (int)syscall(SYS_seccomp, mode, SECCOMP_FILTER_FLAG_TSYNC, filter);
}

static void forbid(unsigned number, const char *how) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (strcmp(how, "syscall") == 0) { /* without privileges, it has to say that it wants none */
        REQUIRE(filter_all_by_syscall(&program) == 0 ||
                (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                 filter_all_by_syscall(&program) == 0));
        return;
    }
    if (strcmp(how, "all") == 0) {
        filter_all_threads(filter, program.len);
        return;
    }
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    REQUIRE(argc == 2);
    bool can = many_can_be_purged_by_one_call();
    REQUIRE(pthread_barrier_init(&filtered, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, second_thread, NULL) == 0);
    breathe_for_half(4711);
    const char *text = can ? "many by one call\n" : "one by one\n";
    if (strcmp(argv[1], "layers") == 0) {
        forbid(SYS_getpid, argv[1]);
        forbid(PROCESS_MADVISE, argv[1]);
        REQUIRE(write(1, text, strlen(text)) > 0);
        syscall(SYS_exit_group, 0);
    }
    if (strcmp(argv[1], "free") != 0) {
        forbid(PROCESS_MADVISE, argv[1]);
    }
    pthread_barrier_wait(&filtered);
    breathe_for_half(42);
    REQUIRE(pthread_join(thread, NULL) == 0);
    fputs(text, stdout);
    return 0;
}
