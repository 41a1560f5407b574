// A small generator of random numbers that gives the same ones everywhere, and the digest that results
// are summed up in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(mix(seed + 1)) {
    }

    uint64_t next() {
        state_ += 0x9e3779b97f4a7c15u;
        return mix(state_);
    }

    // Evenly from 0 to `bound` - 1.
    uint64_t below(uint64_t bound) {
        return next() % bound;
    }

    // From 0 to `bound` - 1, small ones far more often: how words and documents are popular.
    uint64_t skewed(uint64_t bound) {
        const double u = static_cast<double>(next() >> 11) * 0x1p-53;
        return static_cast<uint64_t>(u * u * u * static_cast<double>(bound));
    }

  private:
    uint64_t state_;
};

inline uint64_t digest(std::string_view text, uint64_t seed) {
    uint64_t hash = mix(seed + text.size());
    while (!text.empty()) {
        uint64_t piece = 0;
        const size_t size = std::min(text.size(), sizeof piece);
        std::memcpy(&piece, text.data(), size);
        hash = (hash ^ piece) * 0x100000001b3u;
        hash ^= hash >> 29;
        text.remove_prefix(size);
    }
    return mix(hash);
}
