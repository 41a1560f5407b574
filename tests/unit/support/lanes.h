// Requests that stand for the lanes, the edges between them included.
#ifndef HAKMEM_TEST_LANES_H
#define HAKMEM_TEST_LANES_H

#include <array>
#include <cstddef>

#include "support/resident.h"

namespace hakmem_test {

constexpr std::size_t kTinyLimit = 1 * kKiB;
constexpr std::size_t kMidLimit = 64 * kKiB;
constexpr std::size_t kLargeLimit = 2 * kMiB;

// One request well inside each lane: tiny, mid, large, huge.
constexpr std::array<std::size_t, 4> kLanes = {100, 10'000, 300'000, 5'000'000};

constexpr std::array<std::size_t, 22> kEdges = {0,         1,         8,           9,
                                                16,        17,        100,         128,
                                                129,       1000,      kTinyLimit,  kTinyLimit + 1,
                                                4096,      10'000,    kMidLimit,   kMidLimit + 1,
                                                100'000,   1'000'000, kLargeLimit, kLargeLimit + 1,
                                                5'000'000, 9'000'000};

} // namespace hakmem_test

#endif
