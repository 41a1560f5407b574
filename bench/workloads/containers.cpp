// C++'s containers, built, used and dropped: each node, text and table by operator new and sized delete.
#include "bench.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

static uint64_t container = 0;
static uint64_t elements = 5000;
static uint64_t threads = 1;
static uint64_t rounds = 20;

static const char *const container_names[] = {"all", "map", "hash", "texts", "queue", "tree", nullptr};

static const struct bench_option options[] = {
    {.name = "container",
     .kind = BENCH_CHOICE,
     .value = &container,
     .choices = container_names,
     .help = "what is built: a map, a hash table, a vector of texts, a queue of messages, a tree, or all"},
    {.name = "elements",
     .kind = BENCH_COUNT,
     .value = &elements,
     .least = 1,
     .most = 1 << 24,
     .help = "elements of each; four times as many messages pass through the queue"},
    {.name = "threads",
     .kind = BENCH_COUNT,
     .value = &threads,
     .least = 1,
     .most = BENCH_MOST_THREADS,
     .help = "threads, each with containers of its own"},
    {.name = "rounds",
     .kind = BENCH_COUNT,
     .value = &rounds,
     .least = 1,
     .most = 1ull << 32,
     .help = "times that each thread builds and drops them"},
};

static const struct bench_workload workload = {
    .name = "containers",
    .stands_for =
        "A program in C++: std::map, std::unordered_map, std::vector<std::string>, std::deque and trees of\n"
        "std::shared_ptr, filled one element at a time, looked up, half emptied, filled again and dropped.",
    .options = options,
    .option_count = BENCH_COUNT_OF(options),
};

static void require(bool as_put_in, const char *what) {
    if (!as_put_in) {
        bench_fail("damaged block: %s is not what was put in", what);
    }
}

// Half of the texts are so short that std::string has them in itself.
static std::string text_of(uint64_t key) {
    std::string number = std::to_string(key & 0xffffffff);
    return key % 2 == 0 ? number : "a/rather/longer/name/" + number;
}

static void use_map(struct bench_random *random) {
    std::vector<uint64_t> keys(elements);
    std::map<uint64_t, std::string> map;
    for (uint64_t &key : keys) {
        key = bench_random_next(random);
        map.emplace(key, text_of(key));
    }
    for (size_t i = 0; i < elements; i++) {
        uint64_t key = keys[bench_random_below(random, elements)];
        require(map.at(key) == text_of(key), "a text of the map");
    }
    for (size_t i = 0; i < elements; i += 2) {
        map.erase(keys[i]);
    }
    for (size_t i = 0; i < elements; i += 2) {
        uint64_t key = bench_random_next(random);
        map.emplace(key, text_of(key));
    }
    for (const auto &[key, text] : map) {
        require(text == text_of(key), "a text of the map");
    }
}

static void use_hash_table(struct bench_random *random) {
    std::vector<std::string> names(elements);
    std::unordered_map<std::string, uint64_t> table;
    for (std::string &name : names) {
        uint64_t key = bench_random_next(random);
        name = text_of(key);
        table[name] = key;
    }
    for (size_t i = 0; i < elements; i++) {
        const std::string &name = names[bench_random_below(random, elements)];
        require(text_of(table.at(name)) == name, "a value of the hash table");
    }
    for (size_t i = 0; i < elements; i += 2) {
        table.erase(names[i]);
    }
    for (size_t i = 0; i < elements; i += 2) {
        uint64_t key = bench_random_next(random);
        table[text_of(key)] = key;
    }
    for (const auto &[name, key] : table) {
        require(text_of(key) == name, "a value of the hash table");
    }
}

static void use_texts(struct bench_random *random) {
    struct bench_random again = *random;
    std::vector<std::string> texts;
    for (size_t i = 0; i < elements; i++) {
        texts.push_back(text_of(bench_random_next(random)));
    }
    std::vector<std::string> copy = texts;
    for (std::string &text : texts) {
        text += " and what is appended to it";
    }
    texts.clear();
    texts.shrink_to_fit();
    for (const std::string &text : copy) {
        require(text == text_of(bench_random_next(&again)), "a text of the vector");
    }
}

// A block whose contents --verify looks at.
class Message {
  public:
    explicit Message(size_t size) : size_(size), bytes_(new unsigned char[size]) {
        if (bench.verify) {
            bench_fill(bytes_.get(), size);
        } else {
            bytes_[0] = bytes_[size - 1] = static_cast<unsigned char>(size);
        }
    }

    void check() const {
        if (bench.verify) {
            bench_check(bytes_.get(), bytes_.get());
        } else {
            auto mark = static_cast<unsigned char>(size_);
            require(bytes_[0] == mark && bytes_[size_ - 1] == mark, "a message");
        }
    }

  private:
    size_t size_;
    std::unique_ptr<unsigned char[]> bytes_;
};

// The queue grows to a sixteenth of the messages, then has as many come as go, and is emptied.
static void use_queue(struct bench_random *random) {
    std::deque<Message> queue;
    for (size_t i = 0; i < 4 * elements; i++) {
        queue.emplace_back(bench_random_scaled(random, 16, 1024));
        if (queue.size() > elements / 4) {
            queue.front().check();
            queue.pop_front();
        }
    }
    while (!queue.empty()) {
        queue.front().check();
        queue.pop_front();
    }
}

struct Node {
    explicit Node(uint64_t number) : value(number) {
    }
    uint64_t value;
    std::weak_ptr<Node> parent;
    std::vector<std::shared_ptr<Node>> children;
};

// Recursive: the depth is the logarithm of the number of nodes, on average.
static uint64_t sum_of(const Node &node) {
    uint64_t sum = node.value;
    for (const std::shared_ptr<Node> &child : node.children) {
        require(child->parent.lock().get() == &node, "a node's parent");
        sum += sum_of(*child);
    }
    return sum;
}

static void use_tree(struct bench_random *random) {
    std::vector<std::shared_ptr<Node>> nodes;
    for (size_t i = 0; i < elements; i++) {
        auto node = std::make_shared<Node>(i);
        if (i > 0) {
            const std::shared_ptr<Node> &parent = nodes[bench_random_below(random, i)];
            node->parent = parent;
            parent->children.push_back(node);
        }
        nodes.push_back(std::move(node));
    }
    std::shared_ptr<Node> root = nodes[0];
    nodes.clear();
    require(sum_of(*root) == elements * (elements - 1) / 2, "a node of the tree");
}

using Use = void (*)(struct bench_random *);
static const Use uses[] = {use_map, use_hash_table, use_texts, use_queue, use_tree};

static void build_and_drop(struct bench_worker *worker, void *) {
    bench_begin(worker);
    for (uint64_t i = 0; i < rounds; i++) {
        for (size_t k = 0; k < BENCH_COUNT_OF(uses); k++) {
            if (container == 0 || container == k + 1) {
                uses[k](&worker->random);
            }
        }
    }
    bench_end(worker);
}

int main(int argc, char **argv) {
    bench_start(&workload, argc, argv);
    double seconds = bench_run(static_cast<unsigned>(threads), build_and_drop, nullptr);
    uint64_t built = rounds * (container == 0 ? BENCH_COUNT_OF(uses) : 1);
    const struct bench_figure figures[] = {{"threads", static_cast<double>(threads)}};
    bench_report(threads * built * elements, seconds, figures, BENCH_COUNT_OF(figures));
    return 0;
}
