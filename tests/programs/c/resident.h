/* What programs that look at their own memory share. They look by system calls alone: to ask does not itself
 * make the allocator act. PATIENCE_S and MAY_STAY_KB come from idle.py. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "churn.h"

/* Reads the beginning of a small file of /proc as text. Allocates nothing. */
static inline void read_proc(const char *path, char *text, size_t capacity) {
    int fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0);
    ssize_t length = read(fd, text, capacity - 1);
    close(fd);
    REQUIRE(length > 0);
    text[length] = 0;
}

static inline long resident_kb(void) {
    char text[2048];
    read_proc("/proc/self/smaps_rollup", text, sizeof text);
    const char *line = strstr(text, "\nRss:");
    REQUIRE(line != NULL);
    return strtol(line + 5, NULL, 10);
}

/* By the kernel's count. */
static inline long threads_now(void) {
    char text[2048];
    read_proc("/proc/self/stat", text, sizeof text);
    char *field = strrchr(text, ')'); /* the name may hold anything; num_threads is the 18th from there on */
    REQUIRE(field != NULL);
    for (int i = 0; i < 18; i++) {
        field = strchr(field + 1, ' ');
        REQUIRE(field != NULL);
    }
    return strtol(field, NULL, 10);
}

static inline void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Sleeps, and looks now and then: the kB over `start_kb` at last. */
static inline long idle_until_little_is_left(long start_kb) {
    long over_kb = resident_kb() - start_kb;
    for (int i = 0; i < PATIENCE_S * 20 && over_kb > MAY_STAY_KB; i++) {
        sleep_ms(50);
        over_kb = resident_kb() - start_kb;
    }
    return over_kb;
}

static inline void *touched_block(size_t size) {
    return filled(malloc(size), size);
}

/* Pointers in pages that no allocator counts. */
enum { POINTERS = 7000000 };
static void *blocks[POINTERS];

static inline size_t use_and_free(size_t size, size_t bytes) {
    size_t count = bytes / size;
    REQUIRE(count <= POINTERS);
    for (size_t i = 0; i < count; i++)
        blocks[i] = touched_block(size);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    return count;
}

#endif
