/* A program without threads forks in the handler of a signal that comes in the midst of malloc and free. Half
 * of the children end at once; the others go on with what the signal has interrupted. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 300, ROUNDS = 1500, FORKS = 200, INTERVAL_US = 300 };

static volatile sig_atomic_t forks;
static volatile sig_atomic_t is_child;

static void on_alarm(int number) {
    (void)number;
    if (forks < FORKS && !is_child) {
        forks++;
        pid_t child = fork();
        if (child == 0 && forks % 2 == 0) {
            _exit(0);
        }
        is_child = child == 0;
    }
}

static unsigned random_state = 7;

static unsigned next_random(void) {
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8;
}

static int damaged(void) {
    static uintptr_t *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        /* Small ones, arrays of pages, and some that take the lock of all memory. */
        size_t size = 16 + next_random() % (i % 8 == 0 ? 200000 : i % 2 == 0 ? 30000 : 1500);
        blocks[i] = malloc(size);
        if (blocks[i] == NULL) {
            return 1;
        }
        blocks[i][0] = (uintptr_t)blocks[i] ^ (uintptr_t)i;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i][0] != ((uintptr_t)blocks[i] ^ (uintptr_t)i)) {
            return 1;
        }
        free(blocks[i]);
    }
    return 0;
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, INTERVAL_US}, {0, INTERVAL_US}};
    setitimer(ITIMER_REAL, &timer, NULL);
    int rounds_of_child = 3;
    for (int round = 0; (round < ROUNDS || forks < FORKS) && rounds_of_child > 0; round++) {
        if (damaged()) {
            printf("damaged%s\n", is_child ? " in a child" : "");
            fflush(stdout);
            return 1;
        }
        rounds_of_child -= is_child;
    }
    if (is_child) {
        _exit(0);
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    int ended = 0;
    int status;
    while (wait(&status) > 0) {
        if (status != 0) {
            printf("a child ended with %x\n", (unsigned)status);
            return 1;
        }
        ended++;
    }
    printf("%d children\n", ended);
    return 0;
}
