/* A program whose memory is known: 20 MB that one function leaks, 200 MB that another only passes on, and
 * what the argument asks for. */
#include "check.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAKED_BLOCKS 100000
#define LEAKED_BYTES 200
#define PASSED_BLOCKS 100000
#define PASSED_BYTES 2000
#define LATER_BLOCKS 200

extern const char __ehdr_start[]; /* the linker's name for where the program's file begins */

__attribute__((noinline)) static void *planted_leak(size_t size) {
    void *volatile block = malloc(size);
    REQUIRE(block != NULL);
    return block;
}

__attribute__((noinline)) static void *passing_by(size_t size) {
    void *volatile block = malloc(size);
    REQUIRE(block != NULL);
    return block;
}

__attribute__((noinline)) static void *later_peak(size_t size) {
    void *volatile block = malloc(size);
    REQUIRE(block != NULL);
    return block;
}

static void require_file(const char *number) {
    char path[64];
    snprintf(path, sizeof path, "profile.%d.%s", (int)getpid(), number);
    REQUIRE(access(path, R_OK) == 0);
}

/* Grows at once, keeps that for longer than a period, and frees it. */
static void hold_and_free(void) {
    void *blocks[LATER_BLOCKS];
    for (size_t i = 0; i < LATER_BLOCKS; i++) {
        blocks[i] = later_peak(100000);
    }
    sleep(2);
    for (size_t i = 0; i < LATER_BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < LEAKED_BLOCKS; i++) {
        planted_leak(LEAKED_BYTES);
    }
    for (size_t i = 0; i < PASSED_BLOCKS; i++) {
        free(passing_by(PASSED_BYTES));
    }
    if (strcmp(what, "signal") == 0) {
        /* The program may not allocate for long: the file must be there when the handler returns. */
        for (const char *number = "0"; number != NULL; number = *number == '0' ? "1" : NULL) {
            REQUIRE(raise(SIGUSR2) == 0);
            require_file(number);
        }
    } else if (strcmp(what, "exec") == 0) {
        REQUIRE(raise(SIGUSR2) == 0);
        require_file("0");
        execl(argv[0], argv[0], (char *)NULL);
        return 1;
    } else if (strcmp(what, "held") == 0) {
        hold_and_free();
    } else if (strcmp(what, "peak") == 0) {
        sleep(2); /* one file a second at most: the first one is due at the next sample */
        for (size_t i = 0; i < LATER_BLOCKS; i++) {
            later_peak(100000);
        }
    } else if (strcmp(what, "hidden") == 0) {
        /* as hardened programs do */
        REQUIRE(mprotect((void *)__ehdr_start, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) == 0);
        planted_leak(LEAKED_BYTES);
    }
    printf("done\n");
    return 0;
}
