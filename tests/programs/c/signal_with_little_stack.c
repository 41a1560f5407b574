/* The signal for the statistics comes to a thread that has too little stack to write them; the first thread,
 * which comes to slow paths after it until the file of them is there, has enough. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define STACK_BYTES 16384
#define USED_BYTES 6500
#define PATIENCE_MS 30000

static void use_slow_paths(void) {
    for (int round = 0; round < 100; round++) {
        void *blocks[16];
        for (size_t i = 0; i < 16; i++) {
            blocks[i] = malloc(70000 + 10000 * i);
            REQUIRE(blocks[i] != NULL);
        }
        for (size_t i = 0; i < 16; i++) {
            free(blocks[i]);
        }
        usleep(100); /* slow paths look at the clock no more often */
    }
}

static void *with_little_stack(void *unused) {
    volatile char used[USED_BYTES];
    used[0] = used[USED_BYTES - 1] = 1;
    REQUIRE(raise(SIGUSR1) == 0);
    use_slow_paths();
    REQUIRE(used[0] == used[USED_BYTES - 1]);
    return unused;
}

int main(int count, char **arguments) {
    REQUIRE(count == 2);
    pthread_t thread;
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    REQUIRE(pthread_create(&thread, &attributes, with_little_stack, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    int begin = milliseconds();
    do {
        REQUIRE(milliseconds() - begin < PATIENCE_MS);
        use_slow_paths();
    } while (access(arguments[1], F_OK) != 0);
    return 0;
}
