// Slabs on memory that was used before, of which a thread needs a block or two: the rest is free, and
// resident.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "hakmem.h"
#include "support/holders.h"
#include "support/resident.h"
#include "support/scale.h"

#if !HAKMEM_TEST_SANITIZED
namespace {

using hakmem_test::Holders;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::ResidentMeter;

constexpr std::size_t kThreads = 24;
constexpr std::size_t kLargest = 64 * kKiB;

// Longer than what a thread keeps for its next large block.
void use_memory() {
    constexpr std::size_t kBytes = 1536 * kKiB;
    void *block = hak_malloc(kBytes);
    std::memset(block, 1, kBytes);
    hak_free(block);
}

// One block of each size; the slab that it is the first of lies where other blocks were.
std::vector<void *> one_of_each() {
    std::vector<void *> blocks;
    for (std::size_t size = 1; size <= kLargest; size = hak_good_size(size) + 1) {
        use_memory();
        blocks.push_back(hak_malloc(size));
    }
    return blocks;
}

extern "C" long long hakmem_test_fresh_resident(); // support/fresh_sum.c

// What a heap has counted for itself, and the sum of all does not know yet, must not stay there when its
// slabs are taken from it after its thread has ended.
TEST(Fresh, OfThreadsThatHaveEndedNothingCounts) {
    { const Holders holders(kThreads, one_of_each); }
    hak_collect();
    EXPECT_LT(hakmem_test_fresh_resident(), 256 * 1024);
    EXPECT_GT(hakmem_test_fresh_resident(), -256 * 1024);
}

TEST(Fresh, WhatManyThreadsHaveOfManySizesIsMostlyNotResident) {
    hak_collect();
    const ResidentMeter meter;
    std::size_t held = 0;
    const Holders holders(kThreads, [&] {
        std::vector<void *> blocks = one_of_each();
        held += blocks.size();
        return blocks;
    });
    EXPECT_GT(held, kThreads * 20);
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(192 * kMiB));
}

} // namespace
#endif
