#include "child.h"

#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void child_await(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            bench_fail("a child is lost: %s", strerror(errno));
        }
    }
    if (WIFSIGNALED(status)) {
        bench_fail("a child was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0) {
        _exit(WEXITSTATUS(status)); /* the child has said why */
    }
}
