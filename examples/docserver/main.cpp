// docserver: a document store with full-text search, and the clients that keep it busy, in one process.
// It grows, answers, has its documents replaced, and shrinks, twice over. What it prints depends on the
// scale alone: not on the number of threads, and not on the allocator.

#include "corpus.h"
#include "server.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace {

struct Options {
    double scale = 1;
    size_t threads = 2;
    bool verify = false;
};

constexpr size_t max_under_way = 256;
constexpr size_t hits_per_query = 10;

class Client {
  public:
    explicit Client(const Options &options)
        : options_(options), corpus_(20'000), server_(options.threads),
          documents_(std::max<uint64_t>(1, static_cast<uint64_t>(10'000 * options.scale))) {
    }

    void grow(uint64_t revision) {
        for (uint64_t id = 0; id < documents_; ++id) {
            store(id, revision);
        }
        finish("grow");
    }

    void serve(uint64_t first_query) {
        for (uint64_t i = 0; i < documents_ / 4; ++i) {
            search(first_query + i);
        }
        finish("serve");
    }

    void replace(uint64_t revision) {
        Random random(revision);
        for (uint64_t i = 0; i < documents_ / 2; ++i) {
            store(random.skewed(documents_), revision);
            if (i % 8 == 0) {
                search(revision * 1'000'000 + i);
            }
        }
        finish("replace");
    }

    // Keeps one document in ten, scattered.
    void shrink() {
        for (uint64_t id = 0; id < documents_; ++id) {
            if (mix(id) % 10 != 0) {
                send({Request::Kind::remove, shard_of(id), id, {}, {}});
            }
        }
        finish("shrink");
    }

    uint64_t digest() const {
        return digest_;
    }

  private:
    // What the shards have found so far for one query.
    struct Gathering {
        size_t outstanding = Server::shard_count;
        std::vector<Hit> hits;
    };

    static size_t shard_of(uint64_t id) {
        return mix(id + 99) % Server::shard_count;
    }

    void store(uint64_t id, uint64_t revision) {
        send({Request::Kind::store, shard_of(id), id, corpus_.document(id, revision), {}});
    }

    void search(uint64_t number) {
        const auto terms = std::make_shared<const std::vector<std::string>>(corpus_.query(number));
        gatherings_.emplace(number, Gathering());
        for (size_t shard = 0; shard < Server::shard_count; ++shard) {
            send({Request::Kind::search, shard, number, {}, terms});
        }
    }

    void send(Request request) {
        while (under_way_ >= max_under_way) {
            receive();
        }
        server_.send(std::make_unique<Request>(std::move(request)));
        ++under_way_;
    }

    void receive() {
        const auto response = server_.receive();
        --under_way_;
        if (!response->error.empty()) {
            throw std::runtime_error("request " + std::to_string(response->request->id) + ": " +
                                     response->error);
        }
        if (response->request->kind == Request::Kind::search) {
            gather(*response);
        }
    }

    void gather(Response &response) {
        const auto entry = gatherings_.find(response.request->id);
        Gathering &gathering = entry->second;
        std::move(response.hits.begin(), response.hits.end(), std::back_inserter(gathering.hits));
        if (--gathering.outstanding == 0) {
            conclude(entry->first, gathering.hits);
            gatherings_.erase(entry);
        }
    }

    // Sums are the same in whatever order the queries are answered.
    void conclude(uint64_t query, std::vector<Hit> &hits) {
        std::sort(hits.begin(), hits.end(), [](const Hit &a, const Hit &b) {
            return a.score != b.score ? a.score > b.score : a.document < b.document;
        });
        hits.resize(std::min(hits.size(), hits_per_query));
        uint64_t place = query;
        for (const Hit &hit : hits) {
            digest_ += ::digest(hit.page, mix(++place) + hit.score);
        }
        ++queries_;
        hits_ += hits.size();
    }

    void finish(const char *phase) {
        if (options_.verify) {
            for (size_t shard = 0; shard < Server::shard_count; ++shard) {
                send({Request::Kind::verify, shard, shard, {}, {}});
            }
        }
        while (under_way_ > 0) {
            receive();
        }
        const ShardCounts counts = server_.counts();
        std::printf("%-8s %8" PRIu64 " documents %9" PRIu64 " postings %7" PRIu64 " queries %8" PRIu64
                    " hits %7" PRIu64 " cached %7" PRIu64 " rendered  %016" PRIx64 "%s\n",
                    phase, counts.documents, counts.postings, queries_, hits_, counts.cache_hits,
                    counts.cache_misses, digest_, options_.verify ? "  verified" : "");
    }

    Options options_;
    Corpus corpus_;
    Server server_;
    uint64_t documents_;
    std::unordered_map<uint64_t, Gathering> gatherings_; // by query
    size_t under_way_ = 0;
    uint64_t queries_ = 0;
    uint64_t hits_ = 0;
    uint64_t digest_ = 0;
};

constexpr const char *usage = "usage: docserver [--scale FACTOR] [--threads COUNT] [--verify] [--help]\n";

void print_help() {
    std::printf("%s\n"
                "A document store with full-text search and its clients, in one process: a program that\n"
                "allocates the way servers do. The last line it prints sums up all that it found.\n\n"
                "  --scale FACTOR   the number of documents and queries, 0.001 to 1000 (1: a few seconds)\n"
                "  --threads COUNT  worker threads, 1 to 64 (2)\n"
                "  --verify         after each phase, compare the index with the documents\n"
                "  --help           print this\n",
                usage);
}

[[noreturn]] void reject(const char *option, const char *value, const char *wanted) {
    std::fprintf(stderr, "docserver: %s '%s': %s\n%s", option, value, wanted, usage);
    std::exit(2);
}

double number(const char *option, const char *value, double least, double most, const char *wanted) {
    if (value == nullptr) {
        reject(option, "", wanted);
    }
    char *end = nullptr;
    const double result = std::strtod(value, &end);
    if (end == value || *end != '\0' || !(result >= least && result <= most)) {
        reject(option, value, wanted);
    }
    return result;
}

Options parse_options(char **arguments) {
    Options options;
    while (const char *option = *++arguments) {
        if (std::strcmp(option, "--scale") == 0) {
            options.scale = number(option, *++arguments, 0.001, 1000, "needs a number from 0.001 to 1000");
        } else if (std::strcmp(option, "--threads") == 0) {
            const double count = number(option, *++arguments, 1, 64, "needs a whole number from 1 to 64");
            options.threads = static_cast<size_t>(count);
            if (static_cast<double>(options.threads) != count) {
                reject(option, *arguments, "needs a whole number from 1 to 64");
            }
        } else if (std::strcmp(option, "--verify") == 0) {
            options.verify = true;
        } else if (std::strcmp(option, "--help") == 0) {
            print_help();
            std::exit(0);
        } else {
            reject("unknown option", option, "see --help");
        }
    }
    return options;
}

} // namespace

int main(int, char **arguments) {
    const Options options = parse_options(arguments);
    try {
        Client client(options);
        for (uint64_t day = 0; day < 2; ++day) {
            client.grow(4 * day);
            client.serve(day * 1'000'000'000);
            client.replace(4 * day + 1);
            client.serve(day * 1'000'000'000 + 500'000'000);
            client.shrink();
        }
        std::printf("digest   %016" PRIx64 "\n", client.digest());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "docserver: %s\n", error.what());
        return 1;
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
