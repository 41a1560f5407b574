/* Has a real-time thread that is bound to one processor start the library's thread, and says what differs
 * between how that one is scheduled and how the process is. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 100, BLOCK_BYTES = 100000, TRIES = 100 };

/* 0 if there is no such thread. */
static int library_thread(void) {
    int id = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fgets(name, sizeof name, file) != NULL && strcmp(name, "hakmem\n") == 0)
                id = atoi(task->d_name);
            fclose(file);
        }
    }
    closedir(tasks);
    return id;
}

static void *start_it(void *unused) {
    static void *blocks[BLOCKS];
    const struct sched_param priority = {.sched_priority = 1};
    cpu_set_t allowed, one;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    /* Whoever may not be a real-time thread is bound to a processor at least. */
    REQUIRE(sched_setscheduler(0, SCHED_FIFO, &priority) == 0 || errno == EPERM);
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE((blocks[i] = malloc(BLOCK_BYTES)) != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return unused;
}

int main(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, start_it, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    int id = 0;
    for (int i = 0; i < TRIES && id == 0; i++) {
        usleep(10000);
        id = library_thread();
    }
    REQUIRE(id != 0);
    cpu_set_t its, process;
    REQUIRE(sched_getaffinity(id, sizeof its, &its) == 0);
    REQUIRE(sched_getaffinity(getpid(), sizeof process, &process) == 0);
    printf("policy %s, processors %s\n",
           sched_getscheduler(id) == SCHED_OTHER ? "as others" : "of its starter",
           CPU_EQUAL(&its, &process) ? "of the process" : "of its starter");
    return 0;
}
