/* A program that enters a sandbox: what it may not do there, the library must not do behind its back.
 * "exit": opening files is refused when it ends.
 * "refuse": from the start, opening files is refused. "kill": once statistics are published, all but a few
 * calls that an allocator needs end the process. */
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ALLOW(number)                                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(struct sock_filter *filter, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void refuse_files(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter);
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
    install(filter, sizeof filter / sizeof *filter);
}

static int milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_sec % 100000 * 1000 + now.tv_nsec / 1000000);
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

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    if (strcmp(argv[1], "exit") == 0) {
        refuse_files();
        return 0;
    }
    if (strcmp(argv[1], "refuse") == 0) {
        refuse_files();
        churn(300);
    } else {
        churn(200);
        allow_little();
        churn(500);
    }
    static const char done[] = "done\n";
    REQUIRE(write(1, done, sizeof done - 1) == sizeof done - 1);
    syscall(SYS_exit_group, 0); /* without what libraries do at exit */
}
