/* Tables and records that come zeroed from calloc: filled, or used here and there, then read and dropped. */
#include "replace.h"

/* Of a table that is hardly filled, one in so many words is used. */
#define SPARSE 16

/* A quarter of the tables each; the others are hash tables. */
enum use { FILLED, BEGUN };

static uint64_t min = 16, max = 256 * BENCH_KIB, slots = 1000, operations = 100000, threads = 1;

static const struct bench_option options[] = {
    BENCH_RANGE_OF_SIZES(&min, &max, "greatest size; all powers of two between are equally likely"),
    {.name = "slots",
     .kind = BENCH_COUNT,
     .value = &slots,
     .least = 1,
     .most = 1 << 24,
     .help = "live tables of each thread"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, which share nothing"},
    {.name = "operations",
     .kind = BENCH_COUNT,
     .value = &operations,
     .least = 1,
     .most = 1ull << 40,
     .help = "tables that each thread replaces, whichever"},
};

static const struct bench_workload workload = {
    .name = "zeroed",
    .stands_for =
        "Hash tables, bit sets, counters and records from calloc. A quarter of them is filled, a quarter is\n"
        "sized for the worst case and used at its start, and half are hash tables, of which one word in\n"
        "sixteen is used and all are read. An allocator that knows memory to be fresh need not clear it.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

struct table {
    uint64_t *words;
    size_t read; /* words that its program reads before it drops it */
    uint64_t sum;
};

static void add(struct table *table, size_t at, uint64_t value) {
    table->words[at] += value;
    table->sum += value;
}

static void put(void *item, struct bench_random *random) {
    struct table *table = item;
    size_t count = (bench_random_scaled(random, min, max) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    *table = (struct table){.words = bench_calloc(count), .read = count};
    if (bench.verify) {
        return;
    }
    size_t few = 1 + count / SPARSE;
    switch (bench_random_below(random, 4)) {
    case FILLED:
        for (size_t i = 0; i < count; i++) {
            add(table, i, count ^ i);
        }
        break;
    case BEGUN:
        table->read = few;
        for (size_t i = 0; i < few; i++) {
            add(table, i, count ^ i);
        }
        break;
    default:
        for (size_t i = 0; i < few; i++) {
            add(table, bench_random_below(random, count), count ^ i);
        }
    }
}

static void drop(const void *item) {
    const struct table *table = item;
    uint64_t sum = 0;
    for (size_t i = 0; i < table->read && !bench.verify; i++) {
        sum += table->words[i];
    }
    if (sum != table->sum) {
        bench_fail("damaged block: %p: its words are not those that were put into zeroed memory",
                   (void *)table->words);
    }
    bench_free(table->words);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    bench_require_range(min, max);
    const struct replacement replacement = {sizeof(struct table), put, drop, slots, operations, threads};
    replace_and_report(&replacement);
    return 0;
}
