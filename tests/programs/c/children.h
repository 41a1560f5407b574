/* children.h: what the programs that fork share: a child must end well, and a hang must show where. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <sys/wait.h>
#include <unistd.h>

#include "churn.h"

/* Straight to the file: stdio's locks are part of what these programs test. */
static inline void note(const char *what, int number) {
    dprintf(STDERR_FILENO, "%s %d\n", what, number);
}

static inline void require_good_end(pid_t child) {
    REQUIRE(child > 0);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        dprintf(STDERR_FILENO, "the child was killed by signal %d\n", WTERMSIG(status));
    REQUIRE(status == 0);
}

/* Sizes of every lane: some are served from a thread's own cache, some always under a lock. */
static const size_t lane_sizes[] = {24, 700, 20000, 60000, 300000, (size_t)5 << 20};
enum { LANES = sizeof lane_sizes / sizeof *lane_sizes };

/* Allocates, resizes and frees in every lane. */
static inline void use_every_lane(size_t tag) {
    void *blocks[LANES];
    for (size_t i = 0; i < LANES; i++) {
        size_t size = lane_sizes[i];
        blocks[i] = i % 2 ? calloc(1, size) : malloc(size);
        REQUIRE(blocks[i] != NULL);
        fill_pattern(blocks[i], checked_bytes(size), tag + i);
    }
    for (size_t i = 0; i < LANES; i++) {
        size_t size = lane_sizes[i];
        blocks[i] = realloc(blocks[i], size * 2);
        REQUIRE(blocks[i] != NULL && has_pattern(blocks[i], checked_bytes(size), tag + i));
        free(blocks[i]);
    }
}

#endif
