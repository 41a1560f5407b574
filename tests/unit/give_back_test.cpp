// Memory goes back to the operating system, and holding it costs little. For the plain build only: a
// sanitizer's own memory would hide all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/options.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::counter;
using hakmem_test::free_all;
using hakmem_test::kKiB;
using hakmem_test::kLanes;
using hakmem_test::kMiB;
using hakmem_test::option_named;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::shuffle;

constexpr std::size_t kTotal = 200'000'000;

std::size_t count_of(std::size_t size) {
    return size == 16 ? 1'000'000 : kTotal / size;
}

// The first use of each lane sets up what the allocator keeps for good; that is no part of what a workload
// costs.
void warm_up() {
    for (std::size_t size : kLanes) {
        hak_free(hak_malloc(size));
    }
    hak_collect();
}

void allocate_all(PointerArray &blocks, std::size_t size) {
    for (void *&block : blocks) {
        block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        std::memset(block, 0x7E, size);
    }
}

class GiveBack : public testing::TestWithParam<std::size_t> {};

TEST_P(GiveBack, CollectReturnsAllWithinAMiB) {
    const std::size_t size = GetParam();
    PointerArray blocks(count_of(size));
    warm_up();
    const ResidentMeter meter;
    allocate_all(blocks, size);
    EXPECT_GE(meter.growth(), static_cast<std::ptrdiff_t>(blocks.size() * size * 9 / 10));
    free_all(blocks);
    hak_collect();
    meter.expect_growth_within(kMiB, "after hak_collect");
}

TEST_P(GiveBack, CollectReturnsAllWhenFreedInRandomOrder) {
    const std::size_t size = GetParam();
    PointerArray blocks(count_of(size));
    warm_up();
    const ResidentMeter meter;
    allocate_all(blocks, size);
    Random random(size);
    shuffle(blocks, random);
    free_all(blocks);
    hak_collect();
    meter.expect_growth_within(kMiB, "after hak_collect");
}

TEST_P(GiveBack, RetainsLittleWithoutBeingAsked) {
    const std::size_t size = GetParam();
    PointerArray blocks(count_of(size));
    const std::size_t most = 4'000'000 + blocks.size() * size / 500;
    for (const bool with_grace : {false, true}) {
        ASSERT_EQ(hak_option_set("retain_grace", with_grace ? "128M" : "0"), 0);
        warm_up();
        const ResidentMeter meter;
        allocate_all(blocks, size);
        free_all(blocks);
        // A part of it has come back for what the warming up gave back.
        meter.expect_growth_within(most + (with_grace ? 8 * kMiB : 0), "after the last free");
    }
}

TEST_P(GiveBack, CollectKeepsWhatIsLive) {
    const std::size_t size = GetParam();
    PointerArray blocks(count_of(size) / 4);
    allocate_all(blocks, size);
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        hak_free(blocks[i]);
        blocks[i] = nullptr;
    }
    hak_collect();
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        const auto *bytes = static_cast<const unsigned char *>(blocks[i]);
        ASSERT_EQ(bytes[0], 0x7E);
        ASSERT_EQ(bytes[size - 1], 0x7E);
    }
    allocate_all(blocks, size);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GiveBack,
                         testing::Values(16, 100, 1024, 10'000, 100'000, 1'000'000, 5'000'000),
                         testing::PrintToStringParamName());

TEST(Overhead, AMillionLiveBlocksOf16BytesCostAtMostOneAndAHalfPercent) {
    constexpr std::size_t kCount = 1'000'000;
    PointerArray blocks(kCount);
    warm_up();
    const ResidentMeter meter;
    allocate_all(blocks, 16);
    meter.expect_growth_within(kCount * 16 * 1015 / 1000, "with 16 MB of data live");
    free_all(blocks);
}

// With settings under which all, or nothing, is purged before the blocks' caches are collected.
class Collect : public testing::TestWithParam<const char *> {
  protected:
    void SetUp() override {
        for (std::size_t i = 0; i < options_.size(); i++) {
            before_[i] = option_named(options_[i]).value;
            ASSERT_EQ(hak_option_set(options_[i].c_str(), GetParam()), 0);
        }
    }
    void TearDown() override {
        for (std::size_t i = 0; i < options_.size(); i++) {
            hak_option_set(options_[i].c_str(), before_[i].c_str());
        }
    }

  private:
    const std::array<std::string, 3> options_ = {"retain_min", "retain_percent", "retain_grace"};
    std::array<std::string, 3> before_;
};

TEST_P(Collect, TellsHowMuchItPurged) {
    constexpr std::size_t kSize = 4000;
    warm_up();
    PointerArray blocks(4000);
    allocate_all(blocks, kSize);
    EXPECT_LE(hak_collect(), 2 * kMiB) << "with everything live";
    const ResidentMeter meter;
    free_all(blocks);
    const std::uint64_t before = counter("purged_bytes");
    const std::size_t purged = hak_collect();
    EXPECT_EQ(purged, counter("purged_bytes") - before);
    EXPECT_GE(purged, 64 * kSize) << "what the magazine held";
    EXPECT_LE(purged, static_cast<std::size_t>(std::max<std::ptrdiff_t>(-meter.growth(), 0)) + 2 * kMiB)
        << "what went back on the way down was not purged by this call";
    hak_collect();
    EXPECT_EQ(hak_collect(), 0u) << "nothing is left to purge";
}

TEST_P(Collect, TellsNoMoreOfManyRanges) {
    constexpr std::size_t kRanges = 100;
    constexpr std::size_t kSize = 256 * kKiB;
    warm_up();
    PointerArray freed(kRanges);
    PointerArray between(kRanges);
    for (std::size_t i = 0; i < kRanges; i++) {
        freed[i] = hak_malloc(kSize);
        between[i] = hak_malloc(kSize);
        std::memset(freed[i], 1, kSize);
    }
    hak_collect();
    const std::uint64_t before = counter("purged_bytes");
    free_all(freed);
    hak_collect();
    const std::uint64_t purged = counter("purged_bytes") - before;
    EXPECT_GE(purged, kRanges * kSize);
    EXPECT_LE(purged, kRanges * kSize + kMiB);
    free_all(between);
}

INSTANTIATE_TEST_SUITE_P(Retaining, Collect, testing::Values("0", "1000"));

} // namespace
