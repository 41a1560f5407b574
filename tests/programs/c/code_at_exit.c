/* code_at_exit LIBRARY PROGRAM ARGUMENT...: runs the program with the library preloaded, and prints how many
 * kB of the library's code were resident when it ended, and how many ms it had run. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void become(char **argv) {
    setenv("LD_PRELOAD", argv[1], 1);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        fail("ptrace");
    }
    execvp(argv[2], argv + 2);
    fail(argv[2]);
}

/* Of its mappings that may be executed. */
static long resident_code_kb(pid_t pid, const char *library) {
    char path[64];
    char line[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail(path);
    }
    long all = 0;
    int is_code = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        char rights[8];
        long kb;
        if (sscanf(line, "%*x-%*x %7s", rights) == 1) {
            is_code = rights[2] == 'x' && strstr(line, library) != NULL;
        } else if (is_code && sscanf(line, "Rss: %ld kB", &kb) == 1) {
            all += kb;
        }
    }
    fclose(file);
    return all;
}

int main(int argc, char **argv) {
    int status;
    if (argc < 3) {
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(argv);
    }
    waitpid(pid, &status, 0); /* it is about to run the program */
    if (!WIFSTOPPED(status) || ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACEEXIT) != 0) {
        fail("ptrace");
    }
    int begun_ms = milliseconds();
    int passed_on = 0;
    while (ptrace(PTRACE_CONT, pid, NULL, (void *)(long)passed_on) == 0 && waitpid(pid, &status, 0) == pid &&
           WIFSTOPPED(status)) {
        int is_end = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
        if (is_end) {
            printf("%ld %d\n", resident_code_kb(pid, argv[1]), milliseconds() - begun_ms);
        }
        passed_on = is_end ? 0 : WSTOPSIG(status);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
