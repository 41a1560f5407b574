/* Builds and drops BYTES in no order, with "pages" one block of each page last, a few times, and prints the
 * kB over the start that stay; then lives on with small blocks, which come out of its caches, or with a few
 * of them and one large block at a time, and prints the kB that stay at last. In between it "sleeps", or
 * "works": with such blocks, too. */
#include "resident.h"

enum { BYTES = 150 << 20, TIMES = 4, LEAST = 32, MOST = 1000, PAGES = 1 << 20, REST_MS = 20 };
static bool one_of_each_page_last, is_seen[PAGES];
static void *last[PAGES];

static bool is_first_of_its_page(const void *block) {
    bool *seen = &is_seen[(uintptr_t)block / 4096 % PAGES];
    bool first = !*seen;
    *seen = true;
    return first;
}

static void build_and_drop(uint32_t *random) {
    size_t count = 0;
    for (size_t bytes = 0; bytes < BYTES; count++) {
        size_t size = LEAST + next_random(random) % (MOST - LEAST);
        blocks[count] = touched_block(size);
        bytes += size;
    }
    memset(is_seen, 0, sizeof is_seen);
    size_t kept = 0;
    for (size_t left = count; left > 0; left--) {
        size_t i = next_random(random) % left;
        void *block = blocks[i];
        blocks[i] = blocks[left - 1];
        if (one_of_each_page_last && is_first_of_its_page(block))
            last[kept++] = block;
        else
            free(block);
    }
    while (kept > 0)
        free(last[--kept]);
}

static void use_cached(int pairs, uint32_t *random) {
    for (int pair = 0; pair < pairs; pair++)
        free(touched_block(LEAST + next_random(random) % (MOST - LEAST)));
}

static void rest(bool works, uint32_t *random) {
    if (!works)
        sleep_ms(REST_MS);
    for (int begin = milliseconds(); works && milliseconds() - begin < REST_MS;)
        use_cached(100, random);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    one_of_each_page_last = strcmp(argv[1], "pages") == 0;
    size_t large_bytes = strtoul(argv[2], NULL, 10);
    bool works = strcmp(argv[3], "works") == 0;
    int pairs_of_a_step = large_bytes > 0 ? 50 : 2000;
    uint32_t random = 1;
    memset(blocks, 0, BYTES / LEAST * sizeof *blocks);
    memset(last, 0, sizeof last);
    memset(is_seen, 1, sizeof is_seen);
    long start_kb = resident_kb();
    for (int i = 0; i < TIMES; i++)
        build_and_drop(&random);
    long over_kb = resident_kb() - start_kb;
    printf("%ld ", over_kb);
    for (int i = 0; i < PATIENCE_S * 1000 / REST_MS && over_kb > 5 * MAY_STAY_KB; i++) {
        void *large = large_bytes > 0 ? touched_block(large_bytes) : NULL;
        rest(works, &random);
        free(large);
        use_cached(pairs_of_a_step, &random);
        over_kb = resident_kb() - start_kb;
    }
    printf("%ld\n", over_kb);
    return 0;
}
