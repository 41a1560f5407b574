// The statistics' JSON, read as far as tests need it; its validity is tested by Python, which has a parser.
#ifndef HAKMEM_TEST_STATISTICS_H
#define HAKMEM_TEST_STATISTICS_H

#include <cstdint>
#include <cstdlib>
#include <string>

#include "hakmem.h"
#include "support/waiting.h"

namespace hakmem_test {

inline hak_stats_t stats_now() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats;
}

// The figures once no block is live, or those that it stays with: what the library's thread is taking from a
// cache to its slab just now is neither cached nor free, and for a moment counts as live.
inline hak_stats_t stats_at_rest() {
    hak_stats_t stats{};
    happens([&] {
        stats = stats_now();
        return stats.live_blocks == 0;
    });
    return stats;
}

inline std::string statistics_json() {
    std::string text(64 * 1024, '\0');
    const std::size_t length = hak_stats_json(&text[0], text.size());
    text.resize(length);
    return text;
}

// The number called `name` in the object called `section`; 0 if there is none.
inline std::uint64_t number_in(const std::string &json, const std::string &section, const std::string &name) {
    const std::size_t begin = json.find("\"" + section + "\":{");
    if (begin == std::string::npos) {
        return 0;
    }
    const std::size_t end = json.find('}', begin);
    const std::size_t at = json.find("\"" + name + "\":", begin + section.size() + 3);
    if (at == std::string::npos || at > end) {
        return 0;
    }
    return std::strtoull(json.c_str() + at + name.size() + 3, nullptr, 10);
}

inline std::uint64_t counter(const std::string &name) {
    return number_in(statistics_json(), "counters", name);
}

} // namespace hakmem_test

#endif
