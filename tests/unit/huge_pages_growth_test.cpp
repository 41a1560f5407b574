// Huge pages of blocks that grow: saved faults where what grows is filled, and no memory where it is not.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/huge_pages.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::faults_so_far;
using hakmem_test::free_all;
using hakmem_test::kernel_has_huge_pages;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::PointerArray;
using hakmem_test::ResidentMeter;
using hakmem_test::stats_now;
using hakmem_test::touch;

// What `grow` makes of one block, touched every so many bytes, takes little more than what is touched.
void expect_to_stay_sparse(void *(*grow)(std::size_t most, std::size_t step), std::size_t more) {
    constexpr std::size_t kMost = 64 * kMiB;
    constexpr std::size_t kStep = 64 * kKiB;
    const ResidentMeter meter;
    void *block = grow(kMost, kStep);
    meter.expect_growth_within(kMost / kStep * kPage + more, "with one page in sixteen touched");
    hak_free(block);
}

// What grows into a new block of twice the size each time, as vectors do: the old block vouches for the new
// one.
void *double_up_to(std::size_t most, std::size_t step) {
    void *block = nullptr;
    for (std::size_t size = kMiB; size <= most; size *= 2) {
        void *next = hak_malloc(size);
        touch(next, size, step);
        hak_free(block);
        block = next;
    }
    return block;
}

TEST(HugePagesOfGrowth, SaveFaultsWhereBlocksGrowByDoubling) {
    constexpr std::size_t kMost = 64 * kMiB;
    const std::size_t before = faults_so_far();
    void *block = double_up_to(kMost, kPage);
    const std::size_t faults = faults_so_far() - before;
    hak_free(block);
    if (kernel_has_huge_pages()) {
        EXPECT_LE(faults, 8 * kMiB / kPage) << "for " << 2 * kMost / kPage << " pages";
    } else {
        EXPECT_LE(faults, 2 * kMost / kPage + 200);
    }
}

TEST(HugePagesOfGrowth, DoNotSwellWhatGrowsByDoublingAndStaysSparse) {
    expect_to_stay_sparse(double_up_to, 2 * kMiB);
}

// What is appended to, a little at a time.
void *append_up_to(std::size_t most, std::size_t step) {
    constexpr std::size_t kMore = 128 * kKiB;
    char *block = nullptr;
    for (std::size_t size = kMore; size <= most; size += kMore) {
        block = static_cast<char *>(hak_realloc(block, size));
        touch(block + size - kMore, kMore, step);
    }
    return block;
}

TEST(HugePagesOfGrowth, SaveFaultsWhereBlocksGrowBySteps) {
    constexpr std::size_t kMost = 64 * kMiB;
    const std::size_t before = faults_so_far();
    void *block = append_up_to(kMost, kPage);
    const std::size_t faults = faults_so_far() - before;
    hak_free(block);
    EXPECT_LE(faults, (kernel_has_huge_pages() ? 20 * kMiB : kMost) / kPage + 200);
}

TEST(HugePagesOfGrowth, ComeToBlocksThatGrowByStepsForAnEighthOfThemAtMost) {
    for (const std::size_t most : {5 * kMiB, 15 * kMiB, 24 * kMiB + 128 * kKiB, 41 * kMiB}) {
        const ResidentMeter meter;
        void *block = append_up_to(most, kPage);
        meter.expect_growth_within(most + most / 8 + 3 * kMiB, std::to_string(most).c_str());
        hak_free(block);
        hak_collect();
        meter.expect_growth_within(kMiB, "after it was freed");
    }
}

// Of blocks that stop just behind a superslab, two have all of the next one.
TEST(HugePagesOfGrowth, ComeAheadToTwoBlocksThatGrowByStepsAtATime) {
    constexpr std::size_t kStop = 18 * kMiB + 128 * kKiB;
    const ResidentMeter meter;
    PointerArray blocks(8);
    for (void *&block : blocks) {
        block = append_up_to(kStop, kPage);
    }
    meter.expect_growth_within(blocks.size() * kStop + 7 * kMiB, "by all");
    free_all(blocks);
}

TEST(HugePagesOfGrowth, DoNotSwellWhatGrowsByStepsAndStaysSparse) {
    expect_to_stay_sparse(append_up_to, 3 * kMiB);
}

TEST(HugeRealloc, ToManyTimesTheSizeMakesNothingResident) {
    constexpr std::size_t kHad = 8 * kMiB;
    constexpr std::size_t kSize = 1024 * kMiB;
    void *block = hak_malloc(kHad);
    touch(block, kHad, kPage);
    const ResidentMeter meter;
    block = hak_realloc(block, kSize);
    ASSERT_NE(block, nullptr);
    touch(block, kSize, 8 * kMiB);
    meter.expect_growth_within(kSize / (8 * kMiB) * kPage + 2 * kMiB, "with one page in 8 MiB touched");
    hak_free(block);
}

TEST(HugeRealloc, MovesABlockAgainThatGrewSinceItWasMoved) {
    const hak_stats_t before = stats_now();
    std::size_t size = 3 * kMiB;
    char *block = static_cast<char *>(hak_malloc(size));
    std::memset(block, 1, size);
    std::vector<void *> in_the_way;
    for (int step = 2; step <= 6; step++) {
        in_the_way.push_back(hak_malloc(3 * kMiB)); // so that it cannot grow where it stands
        const std::size_t more = size + size / 2;
        block = static_cast<char *>(hak_realloc(block, more));
        ASSERT_NE(block, nullptr);
        std::memset(block + size, step, more - size);
        size = more;
    }
    std::size_t at = 0;
    std::size_t end = 3 * kMiB;
    for (int step = 1; step <= 6; step++) {
        for (; at < end; at++) {
            ASSERT_EQ(block[at], step) << at;
        }
        end += end / 2;
    }
    hak_free(block);
    for (void *other : in_the_way) {
        hak_free(other);
    }
    const hak_stats_t after = stats_now();
    EXPECT_GE(after.huge_remaps, before.huge_remaps + 2);
    EXPECT_EQ(after.fallbacks, before.fallbacks) << "copied";
}

} // namespace
