/* Trees of nodes with texts and growing lists of children, built and dropped. */
#include "bench.h"

#include <string.h>

enum dropper { BUILDER, CREATOR };

static uint64_t nodes = 20000;
static uint64_t text = 48;
static uint64_t threads = 1;
static uint64_t dropped_by = BUILDER;
static uint64_t documents = 30;

static const char *const dropper_names[] = {"builder", "creator", NULL};

static const struct bench_option options[] = {
    {.name = "nodes",
     .kind = BENCH_COUNT,
     .value = &nodes,
     .least = 1,
     .most = 1 << 24,
     .help = "nodes of a document"},
    {.name = "text",
     .kind = BENCH_BYTES,
     .value = &text,
     .least = BENCH_LEAST_BLOCK,
     .most = BENCH_MIB,
     .help = "greatest length of a node's text"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads that build documents"},
    {.name = "dropped-by",
     .kind = BENCH_CHOICE,
     .value = &dropped_by,
     .choices = dropper_names,
     .help = "who frees a document: the thread that built it, or the one that started that for the purpose"},
    {.name = "documents",
     .kind = BENCH_COUNT,
     .value = &documents,
     .least = 1,
     .most = 1ull << 32,
     .help = "documents that each thread builds, or that are built by as many threads at a time"},
};

static const struct bench_workload workload = {
    .name = "documents",
    .stands_for = "A parser, a compiler or a browser: a tree of small objects, each with a text and a list "
                  "of children\n"
                  "that doubles, which is dropped from its leaves, in an order that has nothing to do with "
                  "that in which\n"
                  "it came. Or a server whose main thread drops what the threads that it started have built.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

/* The blocks of the program whose contents may be verified are the texts: the others are full of pointers. */
struct node {
    struct node **children;
    uint32_t count, capacity;
    char *text;
};

static struct node *new_node(struct bench_random *random) {
    struct node *node = bench_malloc_own(sizeof *node);
    *node = (struct node){NULL, 0, 0, bench_malloc(bench_random_between(random, BENCH_LEAST_BLOCK, text))};
    return node;
}

static void add_child(struct node *parent, struct node *child) {
    if (parent->count == parent->capacity) {
        uint32_t capacity = parent->capacity == 0 ? 1 : 2 * parent->capacity;
        struct node **larger = bench_malloc_own(capacity * sizeof(struct node *));
        if (parent->count > 0) {
            memcpy(larger, parent->children, parent->count * sizeof(struct node *));
        }
        free(parent->children);
        parent->children = larger;
        parent->capacity = capacity;
    }
    parent->children[parent->count++] = child;
}

/* `table` has room for all nodes; the first is the root. Each next one's parent is any before it. */
static struct node *build(struct bench_random *random, struct node **table) {
    for (size_t i = 0; i < nodes; i++) {
        table[i] = new_node(random);
        if (i > 0) {
            add_child(table[bench_random_below(random, i)], table[i]);
        }
    }
    return table[0];
}

/* Recursive: the depth is the logarithm of the number of nodes, on average. */
static void drop(struct node *node) {
    for (uint32_t i = 0; i < node->count; i++) {
        drop(node->children[i]);
    }
    free(node->children);
    bench_free(node->text);
    free(node);
}

static void build_and_drop(struct bench_worker *worker, void *unused) {
    (void)unused;
    struct node **table = bench_table(nodes, sizeof(struct node *));
    bench_begin(worker);
    for (uint64_t i = 0; i < documents; i++) {
        drop(build(&worker->random, table));
    }
    bench_end(worker);
}

struct builder {
    _Alignas(BENCH_LINE) struct bench_random random;
    struct node **table;
    struct node *root;
    pthread_t thread;
};

static void *build_one(void *argument) {
    struct builder *builder = argument;
    builder->root = build(&builder->random, builder->table);
    return NULL;
}

static void drop_what_others_build(struct bench_worker *worker, void *unused) {
    (void)unused;
    struct builder *builders = bench_table(threads, sizeof *builders);
    for (uint64_t i = 0; i < threads; i++) {
        builders[i].random = bench_random_stream(1 + i);
        builders[i].table = bench_table(nodes, sizeof(struct node *));
    }
    bench_begin(worker);
    for (uint64_t i = 0; i < documents; i++) {
        for (uint64_t k = 0; k < threads; k++) {
            builders[k].thread = bench_thread_start(build_one, &builders[k]);
        }
        for (uint64_t k = 0; k < threads; k++) {
            bench_thread_join(builders[k].thread);
        }
        for (uint64_t k = 0; k < threads; k++) {
            drop(builders[k].root);
        }
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    double seconds = dropped_by == BUILDER ? bench_run((unsigned)threads, build_and_drop, NULL)
                                           : bench_run(1, drop_what_others_build, NULL);
    struct bench_figure figures[] = {{"documents", (double)(threads * documents)}};
    bench_report(threads * documents * nodes, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
