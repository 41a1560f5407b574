#include "shard.h"

#include <algorithm>

namespace {

template <typename Postings>
auto position(Postings &postings, uint64_t document) {
    return std::lower_bound(postings.begin(), postings.end(), document,
                            [](const auto &posting, uint64_t id) { return posting.document < id; });
}

template <typename Visit>
void for_each_word(std::string_view text, Visit visit) {
    for (size_t start = 0; start < text.size();) {
        const size_t end = std::min(text.find(' ', start), text.size());
        if (end > start) {
            visit(text.substr(start, end - start));
        }
        start = end + 1;
    }
}

} // namespace

Shard::TermCounts Shard::count_terms(const Json &tree) {
    TermCounts terms;
    const auto count = [&terms](std::string_view word) {
        const auto found = terms.find(word);
        if (found != terms.end()) {
            ++found->second;
        } else {
            terms.emplace(word, 1);
        }
    };
    for_each_word(tree.at("title").text(), count);
    for_each_word(tree.at("body").text(), count);
    for (const Json &tag : tree.at("tags").array()) {
        count(tag.text());
    }
    return terms;
}

void Shard::store(uint64_t id, std::string_view json) {
    remove(id);
    auto document = std::make_unique<Document>();
    document->tree = parse_json(json);
    document->terms = count_terms(document->tree);
    for (const auto &[term, count] : document->terms) {
        Postings &postings = index_[term];
        postings.insert(position(postings, id), {id, count});
    }
    documents_.emplace(id, std::move(document));
}

void Shard::remove(uint64_t id) {
    const auto found = documents_.find(id);
    if (found == documents_.end()) {
        return;
    }
    for (const auto &[term, count] : found->second->terms) {
        const auto entry = index_.find(term);
        Postings &postings = entry->second;
        postings.erase(position(postings, id));
        if (postings.empty()) {
            index_.erase(entry);
        } else if (postings.size() * 4 < postings.capacity()) {
            postings.shrink_to_fit();
        }
    }
    pages_.drop(id);
    documents_.erase(found);
}

std::vector<Hit> Shard::search(const std::vector<std::string> &terms, size_t limit) {
    std::vector<Hit> hits; // by document: those that hold all terms so far
    for (size_t i = 0; i < terms.size(); ++i) {
        const auto entry = index_.find(terms[i]);
        if (entry == index_.end()) {
            return {};
        }
        std::vector<Hit> narrowed;
        auto before = hits.begin();
        for (const Posting &posting : entry->second) {
            while (before != hits.end() && before->document < posting.document) {
                ++before;
            }
            const bool held = before != hits.end() && before->document == posting.document;
            if (i == 0 || held) {
                narrowed.push_back({posting.document, posting.count + (held ? before->score : 0), {}});
            }
        }
        hits = std::move(narrowed);
    }
    const auto better = [](const Hit &a, const Hit &b) {
        return a.score != b.score ? a.score > b.score : a.document < b.document;
    };
    const size_t kept = std::min(limit, hits.size());
    std::partial_sort(hits.begin(), hits.begin() + static_cast<ptrdiff_t>(kept), hits.end(), better);
    hits.resize(kept);
    for (Hit &hit : hits) {
        hit.page = page(hit.document);
    }
    return hits;
}

const std::string &Shard::page(uint64_t id) {
    if (const std::string *cached = pages_.get(id)) {
        ++cache_hits_;
        return *cached;
    }
    ++cache_misses_;
    const Json &tree = documents_.at(id)->tree;
    std::string page = "<h1>" + tree.at("title").text() + "</h1><pre>";
    write_json(tree, page);
    page += "</pre>";
    pages_.put(id, std::move(page));
    return *pages_.get(id);
}

ShardCounts Shard::counts() const {
    ShardCounts result{documents_.size(), 0, cache_hits_, cache_misses_};
    for (const auto &[term, postings] : index_) {
        result.postings += postings.size();
    }
    return result;
}

void Shard::verify() const {
    uint64_t expected = 0;
    for (const auto &[id, document] : documents_) {
        if (count_terms(document->tree) != document->terms) {
            throw std::logic_error("document " + std::to_string(id) + " is not as it was stored");
        }
        for (const auto &[term, count] : document->terms) {
            const Postings &postings = index_.at(term);
            const auto posting = position(postings, id);
            if (posting == postings.end() || posting->document != id || posting->count != count) {
                throw std::logic_error("the index of '" + term + "' lacks document " + std::to_string(id));
            }
        }
        expected += document->terms.size();
    }
    if (counts().postings != expected) {
        throw std::logic_error("the index tells of documents that are gone");
    }
}
