/* check.h: what every C program of this folder uses to test a promise and to say which one broke. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define REQUIRE(condition) ((condition) ? (void)0 : require_failed(__FILE__, __LINE__, #condition))

static inline void require_failed(const char *file, int line, const char *condition) {
    int error = errno;
    fprintf(stderr, "%s:%d: not true: %s (errno %d)\n", file, line, condition, error);
    fflush(stderr);
    _Exit(1);
}

/* Blocks carry a pattern made from their size and a tag, so that a block with two owners shows. */
static inline unsigned char pattern_byte(size_t index, size_t tag) {
    return (unsigned char)(index * 31 + tag * 131 + 7);
}

static inline void fill_pattern(void *block, size_t size, size_t tag) {
    unsigned char *bytes = block;
    for (size_t i = 0; i < size; i++)
        bytes[i] = pattern_byte(i, tag);
}

static inline int has_pattern(const void *block, size_t size, size_t tag) {
    const unsigned char *bytes = block;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern_byte(i, tag))
            return 0;
    return 1;
}

static inline uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Mostly small, now and then from every lane up to a few MiB. */
static inline size_t random_size(uint32_t *state) {
    uint32_t r = next_random(state);
    uint32_t lane = r % 1024;
    r >>= 10;
    if (lane < 900)
        return 1 + r % 1024;
    if (lane < 1010)
        return 1 + r % 65536;
    if (lane < 1022)
        return 1 + r % (1u << 20);
    return 1 + r % (4u << 20);
}

static inline int milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_sec % 100000 * 1000 + now.tv_nsec / 1000000);
}

/* The block, all of it written to. */
static inline void *filled(void *block, size_t size) {
    REQUIRE(block != NULL);
    return memset(block, 0xDB, size);
}

/* Page faults of the process that read nothing from a disk. */
static inline long minor_faults(void) {
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

/* The number behind `field` in a file of the kernel's. */
static inline long figure_in(const char *path, const char *field) {
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    char line[256];
    long value = -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    fclose(file);
    REQUIRE(value >= 0);
    return value;
}

/* A value in kB from /proc/self/status, for example "VmRSS:". */
static inline long status_kb(const char *field) {
    return figure_in("/proc/self/status", field);
}

#endif
