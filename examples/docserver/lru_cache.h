// A cache of texts of any size, bounded in bytes; what was not asked for the longest goes first.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

class LruCache {
  public:
    explicit LruCache(size_t capacity_bytes) : capacity_(capacity_bytes) {
    }

    // The text for `key`, made newest; null if it is not here. Valid until the next `put` or `drop`.
    const std::string *get(uint64_t key) {
        const auto found = index_.find(key);
        if (found == index_.end()) {
            return nullptr;
        }
        entries_.splice(entries_.begin(), entries_, found->second);
        return &found->second->text;
    }

    void put(uint64_t key, std::string text) {
        drop(key);
        bytes_ += text.size();
        entries_.push_front({key, std::move(text)});
        index_[key] = entries_.begin();
        while (bytes_ > capacity_ && entries_.size() > 1) {
            drop(entries_.back().key);
        }
    }

    void drop(uint64_t key) {
        const auto found = index_.find(key);
        if (found != index_.end()) {
            bytes_ -= found->second->text.size();
            entries_.erase(found->second);
            index_.erase(found);
        }
    }

  private:
    struct Entry {
        uint64_t key;
        std::string text;
    };
    std::list<Entry> entries_; // newest first
    std::unordered_map<uint64_t, std::list<Entry>::iterator> index_;
    size_t capacity_;
    size_t bytes_ = 0;
};
