/* A list of nodes with texts that is built, walked, and dropped in another order. */
#include "bench.h"

static uint64_t nodes = 60000;
static uint64_t text = 48;
static uint64_t walks = 3;
static uint64_t threads = 1;
static uint64_t lists = 30;

static const struct bench_option options[] = {
    {.name = "nodes",
     .kind = BENCH_COUNT,
     .value = &nodes,
     .least = 1,
     .most = 1 << 24,
     .help = "nodes of a list"},
    {.name = "text",
     .kind = BENCH_BYTES,
     .value = &text,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_MIB,
     .help = "greatest length of a node's text"},
    {.name = "walks",
     .kind = BENCH_COUNT,
     .value = &walks,
     .least = 0,
     .most = 1 << 20,
     .help = "times that the program goes through a list before it drops it"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, each with lists of its own"},
    {.name = "lists",
     .kind = BENCH_COUNT,
     .value = &lists,
     .least = 1,
     .most = 1ull << 32,
     .help = "lists that each thread builds, one after the other"},
};

static const struct bench_workload workload = {
    .name = "lists",
    .stands_for =
        "An index or a cache that is filled, used and cleared: what is dropped in the order of its\n"
        "keys is built anew in that of its arrival, and where the heap puts it decides how fast the\n"
        "program can go through it.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* The blocks of the program whose contents may be verified are the texts. */
struct node {
    struct node *next;
    uint64_t key;
    uint64_t *text;
};

static struct node *build(struct bench_random *random, struct node **table) {
    struct node *first = NULL;
    for (size_t i = 0; i < nodes; i++) {
        struct node *node = bench_malloc_own(sizeof *node);
        *node = (struct node){first, i, bench_malloc(bench_random_between(random, BENCH_LEAST_BLOCK, text))};
        table[i] = first = node;
    }
    return first;
}

static uint64_t walk(const struct node *node) {
    uint64_t sum = 0;
    for (; node != NULL; node = node->next) {
        sum += node->key + *node->text;
    }
    return sum;
}

static void drop(struct bench_random *random, struct node **table) {
    for (size_t left = nodes; left > 0; left--) {
        size_t i = bench_random_below(random, left);
        struct node *node = table[i];
        table[i] = table[left - 1];
        bench_free(node->text);
        free(node);
    }
}

static void build_walk_and_drop(struct bench_worker *worker, void *unused) {
    (void)unused;
    struct node **table = bench_table(nodes, sizeof(struct node *));
    bench_begin(worker);
    for (uint64_t i = 0; i < lists; i++) {
        struct node *first = build(&worker->random, table);
        for (uint64_t k = 0; k < walks; k++) {
            __asm__ volatile("" : : "r"(walk(first)));
        }
        drop(&worker->random, table);
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    double seconds = bench_run((unsigned)threads, build_walk_and_drop, NULL);
    struct bench_figure figures[] = {{"lists", (double)(threads * lists)}};
    bench_report(threads * lists * nodes, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
