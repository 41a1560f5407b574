// Contents that only one block can have: every word depends on the block's stamp and its own offset.
//
// Blocks to 1 KiB are written and checked to the last byte, larger ones at their start, their end
// and some places inside, so that millions of operations stay affordable.
#ifndef HAKMEM_TEST_PATTERN_H
#define HAKMEM_TEST_PATTERN_H

#include <cstddef>
#include <cstdint>

namespace hakmem_test {

void fill_pattern(void *block, std::size_t size, std::uint64_t stamp);

// Whether the first `kept` bytes still hold what fill_pattern(block, written, stamp) put there.
bool pattern_intact(const void *block, std::size_t written, std::size_t kept, std::uint64_t stamp);

inline bool pattern_intact(const void *block, std::size_t written, std::uint64_t stamp) {
    return pattern_intact(block, written, written, stamp);
}

bool all_bytes_are(int value, const void *block, std::size_t size);

bool all_zero(const void *block, std::size_t size);

} // namespace hakmem_test

#endif
