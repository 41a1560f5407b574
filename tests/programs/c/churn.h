/* churn.h: a working set of patterned blocks that are allocated, moved, checked and freed. */
#ifndef CHURN_H
#define CHURN_H

#include "check.h"

enum { CHURN_SLOTS = 64 };

typedef struct churn {
    uint32_t random;
    struct {
        void *block;
        size_t size;
        size_t tag;
    } slots[CHURN_SLOTS];
} churn_t;

static inline void churn_start(churn_t *churn, uint32_t seed) {
    memset(churn, 0, sizeof *churn);
    churn->random = seed * 2654435761u + 1;
}

/* Only the ends of large blocks are checked each step, or the pattern would cost more than the test. */
static inline size_t checked_bytes(size_t size) {
    return size < 512 ? size : 512;
}

static inline void churn_drop(churn_t *churn, size_t slot) {
    if (!churn->slots[slot].block)
        return;
    size_t size = churn->slots[slot].size, part = checked_bytes(size), tag = churn->slots[slot].tag;
    unsigned char *bytes = churn->slots[slot].block;
    REQUIRE(has_pattern(bytes + size - part, part, tag));
    free(bytes);
    churn->slots[slot].block = NULL;
}

static inline void churn_step(churn_t *churn) {
    uint32_t r = next_random(&churn->random);
    size_t slot = r % CHURN_SLOTS;
    size_t size = random_size(&churn->random), part = checked_bytes(size);
    unsigned char *bytes;
    if (churn->slots[slot].block && r % 5 == 0) {
        size_t old = churn->slots[slot].size;
        size_t old_part = checked_bytes(old);
        REQUIRE(has_pattern((unsigned char *)churn->slots[slot].block + old - old_part, old_part,
                            churn->slots[slot].tag));
        bytes = realloc(churn->slots[slot].block, size);
    } else {
        churn_drop(churn, slot);
        bytes = r % 7 == 0 ? calloc(1, size) : malloc(size);
        if (bytes && r % 7 == 0)
            REQUIRE(bytes[0] == 0 && bytes[size / 2] == 0 && bytes[size - 1] == 0);
    }
    REQUIRE(bytes != NULL);
    churn->slots[slot].block = bytes;
    churn->slots[slot].size = size;
    churn->slots[slot].tag = r;
    fill_pattern(bytes + size - part, part, r);
}

static inline void churn_end(churn_t *churn) {
    for (size_t slot = 0; slot < CHURN_SLOTS; slot++)
        churn_drop(churn, slot);
}

/* All of it, for so many steps. */
static inline void churn_run(uint32_t seed, int steps) {
    churn_t churn;
    churn_start(&churn, seed);
    for (int step = 0; step < steps; step++)
        churn_step(&churn);
    churn_end(&churn);
}

#endif
