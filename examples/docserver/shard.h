// One part of the collection: its documents, the index of their words, and a cache of rendered pages.
// Used by one thread at a time.
#pragma once

#include "json.h"
#include "lru_cache.h"

#include <map>
#include <memory>

struct Hit {
    uint64_t document;
    uint64_t score;
    std::string page; // the document, rendered with the query's words marked up
};

struct ShardCounts {
    uint64_t documents = 0;
    uint64_t postings = 0;
    uint64_t cache_hits = 0;
    uint64_t cache_misses = 0;
};

class Shard {
  public:
    // Stores a document given as JSON, instead of the one with that id if there is one.
    void store(uint64_t id, std::string_view json);
    void remove(uint64_t id);

    // The `limit` documents that hold all `terms` and hold them most often, best first.
    std::vector<Hit> search(const std::vector<std::string> &terms, size_t limit);

    ShardCounts counts() const;

    // Throws std::logic_error if the index does not say exactly what the documents do.
    void verify() const;

  private:
    using TermCounts = std::map<std::string, uint32_t, std::less<>>;
    struct Document {
        Json tree;
        TermCounts terms;
    };
    struct Posting {
        uint64_t document;
        uint32_t count;
    };
    using Postings = std::vector<Posting>; // by document

    static TermCounts count_terms(const Json &tree);
    const std::string &page(uint64_t id);

    std::unordered_map<uint64_t, std::unique_ptr<Document>> documents_;
    std::unordered_map<std::string, Postings> index_;
    LruCache pages_{512 << 10};
    uint64_t cache_hits_ = 0;
    uint64_t cache_misses_ = 0;
};
