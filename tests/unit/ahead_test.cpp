// Pages ahead of use for runs of blocks that are larger than a page: where earlier blocks were filled, and
// only there.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hakmem.h"
#include "support/advice.h"
#include "support/holders.h"
#include "support/pattern.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::fill_pattern;
using hakmem_test::Holders;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::pattern_intact;
using hakmem_test::ResidentMeter;
using hakmem_test::stats_now;

std::uint64_t faults_avoided() {
    return stats_now().page_faults_avoided;
}

// Linux 5.14 is the first that brings many pages with one call.
bool kernel_brings_pages() {
    constexpr int kPopulateWrite = 23;
    return hakmem_test::kernel_takes_advice(kPopulateWrite);
}

// Blocks of one size, freed at the end.
class Filling {
  public:
    explicit Filling(std::size_t size) : size_(size) {
    }
    Filling(const Filling &) = delete;
    Filling &operator=(const Filling &) = delete;
    ~Filling() {
        for (void *block : blocks_) {
            hak_free(block);
        }
        hak_collect();
    }

    // Adds blocks of so many bytes in all, and writes to the first `filled` of each.
    void add(std::size_t bytes, std::size_t filled) {
        for (std::size_t had = 0; had < bytes; had += size_) {
            blocks_.push_back(hak_malloc(size_));
            hakmem_test::dirty(blocks_.back(), filled, 1);
        }
    }

  private:
    std::size_t size_;
    std::vector<void *> blocks_;
};

class AheadOfSize : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Sizes, AheadOfSize, testing::Values(5000, 8192, 10000, 24000, 40000, 65536));

TEST_P(AheadOfSize, MostPagesOfBlocksThatAreFilledComeByCallsForManyOfThem) {
    constexpr std::size_t kBytes = 64 * kMiB;
    const hak_stats_t before = stats_now();
    const ResidentMeter meter;
    Filling blocks(GetParam());
    blocks.add(kBytes, GetParam());
    const hak_stats_t after = stats_now();
    const std::uint64_t avoided = after.page_faults_avoided - before.page_faults_avoided;
    const std::uint64_t populated = after.populated_bytes - before.populated_bytes;
    // 16 MiB are in use before any run is watched.
    if (kernel_brings_pages()) {
        EXPECT_GT(avoided, kBytes / kPage / 2);
    }
    EXPECT_LE(avoided, populated / kPage) << "less one for each call";
    EXPECT_LE(populated, kBytes / 16 * 18) << "and the ends of slabs";
#if !HAKMEM_TEST_SANITIZED
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(kBytes / 16 * 17));
#endif
}

#if !HAKMEM_TEST_SANITIZED
TEST_P(AheadOfSize, BlocksThatAreNotFilledHaveNoMorePages) {
    constexpr std::size_t kBytes = 64 * kMiB;
    const ResidentMeter meter;
    Filling blocks(GetParam());
    blocks.add(kBytes, 1);
    const std::size_t touched = kBytes / GetParam() * 2 * kPage; // in a run, the next block's page, too
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(std::min(touched, kBytes) + 2 * kMiB));
}

TEST_P(AheadOfSize, AProgramThatFillsThemNoMoreIsSoonFoundOut) {
    constexpr std::size_t kBytes = 64 * kMiB;
    Filling blocks(GetParam());
    blocks.add(kBytes / 2, GetParam());
    const ResidentMeter meter;
    blocks.add(kBytes, 1);
    const std::size_t touched = kBytes / GetParam() * 2 * kPage;
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(std::min(touched, kBytes) + 8 * kMiB));
}
// Fills two runs of each class of larger blocks, and takes a block of the third; returns the bytes of all.
std::size_t use_each_class(std::vector<void *> &blocks) {
    std::size_t bytes = 0;
    for (std::size_t size = hak_good_size(kPage + 1); size <= 64 * kKiB; size = hak_good_size(size + 1)) {
        const std::uint64_t before = stats_now().slabs_created;
        while (stats_now().slabs_created < before + 3) {
            blocks.push_back(hak_malloc(size));
            hakmem_test::dirty(blocks.back(), size, 1);
            bytes += size;
        }
    }
    return bytes;
}

TEST(Ahead, ThreadsOfManySizesPayForFewRunsThatTheyHaveHardlyBegun) {
    const ResidentMeter meter;
    std::size_t live = 0;
    const Holders holders(6, [&] {
        std::vector<void *> blocks;
        live += use_each_class(blocks);
        return blocks;
    });
    EXPECT_LT(meter.growth(), static_cast<std::ptrdiff_t>(live + live / 16 + 8 * kMiB));
}
#endif

TEST(Ahead, ASmallProgramGetsNone) {
    const std::uint64_t before = faults_avoided();
    Filling blocks(8192);
    blocks.add(8 * kMiB, 8192);
    EXPECT_EQ(faults_avoided(), before);
}

TEST(Ahead, BuffersThatGrowAreCopiedToPagesThatComeTogether) {
    constexpr std::size_t kBuffers = 1000;
    constexpr std::size_t kStep = 8000;
    const std::uint64_t before = faults_avoided();
    std::vector<void *> buffers(kBuffers);
    for (std::size_t size = kStep; size <= 60000; size += kStep) {
        for (std::size_t i = 0; i < kBuffers; i++) {
            buffers[i] = hak_realloc(buffers[i], size);
            if (size > kStep) {
                ASSERT_TRUE(pattern_intact(buffers[i], size - kStep, i));
            }
            fill_pattern(buffers[i], size, i);
        }
    }
    if (kernel_brings_pages()) {
        EXPECT_GT(faults_avoided() - before, kBuffers);
    }
    for (void *buffer : buffers) {
        hak_free(buffer);
    }
}

TEST(Ahead, WhatIsCopiedToTheSameBlocksAgainAndAgainGetsPagesOnce) {
    Filling others(40000);
    others.add(32 * kMiB, 40000);
    const std::uint64_t before = faults_avoided();
    for (int i = 0; i < 5000; i++) {
        void *block = hak_malloc(13000);
        block = hak_realloc(block, 30000);
        ASSERT_NE(block, nullptr);
        hak_free(block);
    }
    EXPECT_LT(faults_avoided() - before, 500);
}

} // namespace
