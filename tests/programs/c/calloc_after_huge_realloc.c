/* Moves shrunk huge blocks away, so that pages full of old contents stay where they were, and then
 * has calloc take that place: it must read as zero throughout. */
#include "check.h"

#define MIB ((size_t)1 << 20)

/* Shrunk to just over a multiple of 2 MiB: most of the last pages kept hold what the block does not. */
static const struct {
    size_t first, shrunk, grown;
} cases[] = {
    {10 * MIB, 8 * MIB + 4096, 40 * MIB},
    {12 * MIB, 4 * MIB + 4096, 13 * MIB},
    {9 * MIB + 12345, 6 * MIB + 1, 30 * MIB},
    {40 * MIB, 3 * MIB, 50 * MIB},
};
enum { CASES = sizeof cases / sizeof *cases, NEIGHBOURS = 2 };

static void require_zeros(size_t size) {
    unsigned char *zeros = calloc(1, size);
    REQUIRE(zeros != NULL);
    for (size_t i = 0; i < size; i++)
        REQUIRE(zeros[i] == 0);
    memset(zeros, 0xEF, size);
    free(zeros);
}

static void move_away(size_t first, size_t shrunk, size_t grown) {
    unsigned char *block = malloc(first);
    REQUIRE(block != NULL);
    memset(block, 0xCD, first);
    block = realloc(block, shrunk);
    REQUIRE(block != NULL);
    /* In the way of growth in place, one for the place after the shrunk block, one for the rest. */
    void *neighbours[NEIGHBOURS];
    for (int i = 0; i < NEIGHBOURS; i++) {
        neighbours[i] = malloc(3 * MIB);
        REQUIRE(neighbours[i] != NULL);
        memset(neighbours[i], 0xAB, 3 * MIB);
    }
    block = realloc(block, grown);
    REQUIRE(block != NULL);
    for (size_t i = 0; i < shrunk; i++)
        REQUIRE(block[i] == 0xCD);
    require_zeros(first);
    require_zeros(shrunk);
    /* The moved block's own pages, once they are free again. */
    memset(block, 0xCD, grown);
    free(block);
    require_zeros(grown);
    for (int i = 0; i < NEIGHBOURS; i++)
        free(neighbours[i]);
    require_zeros(first + grown);
}

int main(void) {
    for (size_t i = 0; i < CASES; i++)
        move_away(cases[i].first, cases[i].shrunk, cases[i].grown);
    printf("%d blocks moved\n", CASES);
    return 0;
}
