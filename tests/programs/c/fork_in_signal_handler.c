/* A program without threads forks in the handler of a signal that comes in the midst of malloc and free. Half
 * of the children end at once; the others go on with what the signal has interrupted. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alarms.h"
#include "churn.h"

enum { FORKS = 200, STEPS = 100000, STEPS_OF_CHILD = 300, INTERVAL_US = 300 };

static volatile sig_atomic_t forks;
static volatile sig_atomic_t is_child;

static void on_alarm(int number) {
    (void)number;
    if (forks < FORKS && !is_child) {
        forks++;
        pid_t child = fork();
        if (child == 0 && forks % 2 == 0)
            _exit(0);
        is_child = child == 0;
    }
}

int main(void) {
    begin_alarms(on_alarm, INTERVAL_US);
    churn_t churn;
    churn_start(&churn, 1);
    for (int step = 0; !is_child && (step < STEPS || forks < FORKS); step++)
        churn_step(&churn);
    for (int step = 0; is_child && step < STEPS_OF_CHILD; step++)
        churn_step(&churn);
    churn_end(&churn);
    if (is_child)
        _exit(0);
    int ended = 0;
    int status;
    for (; wait(&status) > 0; ended++)
        REQUIRE(status == 0);
    REQUIRE(ended == FORKS);
    puts("every child ended well");
    return 0;
}
