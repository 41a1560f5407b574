/* A program without threads forks in the handler of a signal, again and again, until a file of the given name
 * is there. The children go on with what the signal has interrupted, and end as programs do. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alarms.h"
#include "churn.h"

enum { INTERVAL_US = 300 };

static volatile sig_atomic_t is_child;

static void on_alarm(int number) {
    (void)number;
    int saved_errno = errno;
    if (!is_child)
        is_child = fork() == 0;
    while (!is_child && waitpid(-1, NULL, WNOHANG) > 0) {
    }
    errno = saved_errno;
}

int main(int count, char **arguments) {
    REQUIRE(count == 2);
    begin_alarms(on_alarm, INTERVAL_US);
    churn_t churn;
    churn_start(&churn, 1);
    for (unsigned step = 0; !is_child && (step % 256 != 0 || access(arguments[1], F_OK) != 0); step++)
        churn_step(&churn);
    return 0;
}
