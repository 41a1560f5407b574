#include "support/pattern.h"

#include <algorithm>
#include <cstring>

namespace hakmem_test {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kWholeUpTo = 1024;
constexpr std::size_t kEnds = 64;
constexpr unsigned kPlacesInside = 4;

std::uint64_t mix(std::uint64_t value) {
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 29);
}

std::uint64_t word_at(std::uint64_t stamp, std::size_t offset) {
    return mix(stamp + offset * 0xD6E8FEB86659FD93u);
}

// Calls visit(from, to) for each range of a block that carries the pattern; `from` is a multiple of a word.
template <typename Visit>
void for_each_range(std::size_t size, std::uint64_t stamp, Visit visit) {
    if (size <= kWholeUpTo) {
        visit(std::size_t{0}, size);
        return;
    }
    visit(std::size_t{0}, kEnds);
    visit((size - kEnds) & ~(kWord - 1), size);
    for (unsigned place = 0; place < kPlacesInside; place++) {
        const std::size_t offset = mix(stamp ^ (place + 1)) % (size / kWord) * kWord;
        visit(offset, offset + kWord);
    }
}

} // namespace

void fill_pattern(void *block, std::size_t size, std::uint64_t stamp) {
    auto *bytes = static_cast<unsigned char *>(block);
    for_each_range(size, stamp, [=](std::size_t from, std::size_t to) {
        std::size_t offset = from;
        for (; offset + kWord <= to; offset += kWord) {
            const std::uint64_t word = word_at(stamp, offset);
            std::memcpy(bytes + offset, &word, kWord);
        }
        if (offset < to) {
            const std::uint64_t word = word_at(stamp, offset);
            std::memcpy(bytes + offset, &word, to - offset);
        }
    });
}

bool pattern_intact(const void *block, std::size_t written, std::size_t kept, std::uint64_t stamp) {
    const auto *bytes = static_cast<const unsigned char *>(block);
    bool intact = true;
    for_each_range(written, stamp, [&](std::size_t from, std::size_t range_end) {
        const std::size_t to = std::min(range_end, kept);
        std::size_t offset = from;
        for (; offset + kWord <= to; offset += kWord) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + offset, kWord);
            intact &= word == word_at(stamp, offset);
        }
        if (offset < to) {
            const std::uint64_t word = word_at(stamp, offset);
            intact &= std::memcmp(bytes + offset, &word, to - offset) == 0;
        }
    });
    return intact;
}

bool all_bytes_are(int value, const void *block, std::size_t size) {
    const auto *bytes = static_cast<const unsigned char *>(block);
    // Comparing the block with itself one byte on leaves only the first byte to look at.
    return size == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

bool all_zero(const void *block, std::size_t size) {
    return all_bytes_are(0, block, size);
}

} // namespace hakmem_test
