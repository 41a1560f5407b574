// What follows where the system refuses one kind of call: reserving address space, making it usable, purging,
// moving.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "arena/layout.h"
#include "hakmem.h"
#include "os/fault.h"
#include "support/equal_blocks.h"
#include "support/faults.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/statistics.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::dirty;
using hakmem_test::expect_everything_works;
using hakmem_test::fallbacks;
using hakmem_test::fill_pattern;
using hakmem_test::free_blocks;
using hakmem_test::kEdges;
using hakmem_test::kEveryCall;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::make_equal_blocks;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::shuffle;
using hakmem_test::stats_now;
using hakmem_test::switch_faults_off;

TEST(FaultOfReserve, AtLastMakesAllocationFail) {
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    std::vector<void *> blocks;
    constexpr std::size_t kSize = std::size_t{1} << 40;
    constexpr std::size_t kBlocksMost = (std::size_t{1} << ADDRESS_BITS) / kSize;
    for (std::size_t i = 0; i < kBlocksMost; i++) {
        errno = 0;
        void *block = hak_malloc(kSize);
        if (block == nullptr) {
            EXPECT_EQ(errno, ENOMEM);
            break;
        }
        blocks.push_back(block);
    }
    EXPECT_LT(blocks.size(), kBlocksMost) << "the address space of a process is smaller than that";
    os_fault_set(OS_FAULT_RESERVE, 0, 0);
    for (void *block : blocks) {
        hak_free(block);
    }
    expect_everything_works();
}

TEST(FaultOfPurge, NeitherLosesMemoryNorBreaksThePromiseOfCalloc) {
    expect_everything_works();
    hak_collect();
    const ResidentMeter meter;
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    for (int round = 0; round < 3; round++) {
        for (std::size_t size : kEdges) {
            std::array<void *, 10> blocks{};
            for (void *&block : blocks) {
                block = hak_calloc(1, size);
                ASSERT_NE(block, nullptr) << size;
                ASSERT_TRUE(all_zero(block, size)) << size << " in round " << round;
                dirty(block, hak_usable_size(block), 0xDB);
            }
            for (void *block : blocks) {
                hak_free(block);
            }
            hak_collect();
        }
    }
    switch_faults_off();
    expect_everything_works();
    hak_collect();
    meter.expect_growth_within(kMiB, "once purging works again");
}

// Blocks of a slab each that nothing else is between, so that each is a range of its own when they are freed.
class Ranges {
  public:
    explicit Ranges(std::size_t count) : freed_(count), kept_(count) {
        for (std::size_t i = 0; i < count; i++) {
            freed_[i] = hak_malloc(kBytes);
            kept_[i] = hak_malloc(kBytes);
            dirty(freed_[i], kBytes, 1);
        }
    }
    ~Ranges() {
        free_blocks(freed_);
        free_blocks(kept_);
    }
    Ranges(const Ranges &) = delete;
    Ranges &operator=(const Ranges &) = delete;

    void free() {
        free_blocks(freed_);
        freed_.clear();
    }

  private:
    static constexpr std::size_t kBytes = 100'000;
    std::vector<void *> freed_;
    std::vector<void *> kept_;
};

TEST(FaultOfPurge, KeepsWhatIsRefusedAndNothingElse) {
    hak_collect();
    const std::uint64_t before = stats_now().retained_bytes;
    Ranges ranges(100);
    ranges.free();
    const long refused = 20;
    os_fault_set(OS_FAULT_PURGE, 0, refused);
    hak_collect();
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    EXPECT_LE(stats_now().retained_bytes, before + refused * 2 * (64 << 10));
    hak_collect();
    EXPECT_LE(stats_now().retained_bytes, before);
}

TEST(FaultOfPurge, KeepsNoBitmapsForGood) {
    constexpr std::size_t kBlocks = 1'000'000; // with bitmaps of 128 KiB
    free_blocks(make_equal_blocks(kBlocks, 16));
    hak_collect();
    const std::uint64_t before = stats_now().metadata_bytes;
    const std::vector<void *> blocks = make_equal_blocks(kBlocks, 16);
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    free_blocks(blocks);
    hak_collect();
    EXPECT_GE(stats_now().metadata_bytes, before + 100 * kKiB);
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    hak_collect();
    EXPECT_LE(stats_now().metadata_bytes, before + 32 * kKiB);
}

TEST(FaultOfPurge, IsNotMetWithEachFree) {
    constexpr std::size_t kFrees = 3000;
    Ranges ranges(400);
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    ranges.free();
    const std::uint64_t fallbacks_before = fallbacks();
    for (std::size_t i = 0; i < kFrees; i++) {
        hak_free(hak_malloc(100'000 + i % 5 * 70'000));
    }
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    // A bound may grow or shrink meanwhile.
    EXPECT_LT(fallbacks() - fallbacks_before, kFrees / 4);
}

// A block whose pages were moved goes back by a new mapping, and where that fails by a look at the old one.
TEST(FaultOfPurge, LeavesErrnoAloneWhereABlockThatHasMovedIsFreed) {
    void *block = hak_malloc(3 * kMiB);
    void *const obstacle = hak_malloc(3 * kMiB);
    dirty(block, 3 * kMiB, 1);
    void *const moved = hak_realloc(block, 20 * kMiB);
    ASSERT_NE(moved, nullptr);
    os_fault_set(OS_FAULT_PURGE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    errno = 4711;
    hak_free(moved);
    EXPECT_EQ(errno, 4711);
    switch_faults_off();
    hak_free(obstacle);
}

TEST(FaultOfRemap, FallsBackToCopying) {
    const std::uint64_t fallbacks_before = fallbacks();
    os_fault_set(OS_FAULT_REMAP, 0, kEveryCall);
    std::size_t size = 3 * kMiB;
    auto *block = static_cast<unsigned char *>(hak_malloc(size));
    ASSERT_NE(block, nullptr);
    dirty(block, size, 0xC3);
    for (; size < 100 * kMiB; size += size / 2) {
        void *obstacle = hak_malloc(size);
        block = static_cast<unsigned char *>(hak_realloc(block, size + size / 2));
        hak_free(obstacle);
        ASSERT_NE(block, nullptr);
        // Equal to itself one byte on, and so the first byte throughout.
        ASSERT_TRUE(block[0] == 0xC3 && std::memcmp(block, block + 1, size - 1) == 0) << size;
        dirty(block, size + size / 2, 0xC3);
    }
    EXPECT_GT(fallbacks(), fallbacks_before) << "no block had to move";
    hak_free(block);
    switch_faults_off();
}

// As under RLIMIT_DATA: what was made usable before serves, wherever else there would be room.
TEST(FaultOfCommit, HugeBlocksComeFromWhatIsUsableAlready) {
    for (std::size_t count = 10; count <= 55; count += 5) {
        for (const std::size_t wanted : {3 * kMiB, 10 * kMiB, 30 * kMiB}) {
            std::vector<void *> blocks(count);
            for (void *&block : blocks) {
                block = hak_malloc(4 * kMiB);
                ASSERT_NE(block, nullptr);
            }
            for (std::size_t i = 0; i + 1 < count; i++) {
                hak_free(blocks[i]);
            }
            hak_collect();
            os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
            std::vector<void *> others;
            while (void *block = hak_malloc(wanted)) {
                others.push_back(block);
            }
            os_fault_set(OS_FAULT_COMMIT, 0, 0);
            // One of them may be elsewhere than in the row of all others.
            const std::size_t superslabs = (wanted + 2 * kMiB - 1) / (2 * kMiB);
            EXPECT_GE(others.size() + 1, 2 * (count - 1) / superslabs) << count << " blocks, " << wanted;
            free_blocks(others);
            hak_free(blocks.back());
            ASSERT_FALSE(HasFailure());
        }
    }
}

TEST(FaultOfCommit, LeavesNoRegionBehindThatServesNobody) {
    void *const kept = hak_malloc(150 * kMiB);
    ASSERT_NE(kept, nullptr);
    std::size_t failed = 0;
    for (const std::size_t wanted : {kMiB, 250 * kMiB, 400 * kMiB}) {
        std::vector<void *> others;
        for (long after = 0; after < 20; after++) {
            const std::uint64_t before = stats_now().reserved_bytes;
            os_fault_set(OS_FAULT_COMMIT, after % 10, kEveryCall);
            void *const block = hak_malloc(wanted);
            os_fault_set(OS_FAULT_COMMIT, 0, 0);
            if (block != nullptr) {
                others.push_back(block);
            } else {
                failed++;
                ASSERT_EQ(stats_now().reserved_bytes, before) << wanted << " after " << after;
            }
        }
        free_blocks(others);
    }
    EXPECT_GT(failed, 0u);
    hak_free(kept);
}

// As near the limit of mappings: pages that are under way come back, and their target serves again.
TEST(FaultOfRemap, HalfwayLosesNoMemory) {
    const auto slabs_in_use = [] { return stats_now().slabs_in_use; };
    hak_free(hak_malloc(3 * kMiB));
    const std::uint64_t before = slabs_in_use();
    for (int round = 0; round < 3; round++) {
        void *block = hak_malloc(3 * kMiB);
        void *const obstacle = hak_malloc(3 * kMiB);
        fill_pattern(block, 3 * kMiB, 1);
        const std::uint64_t fallbacks_before = fallbacks();
        os_fault_set(OS_FAULT_REMAP, 1, 1);
        block = hak_realloc(block, 20 * kMiB);
        os_fault_set(OS_FAULT_REMAP, 0, 0);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(fallbacks(), fallbacks_before + 1) << "the block was to be copied";
        EXPECT_TRUE(pattern_intact(block, 3 * kMiB, 1));
        hak_free(block);
        hak_free(obstacle);
        EXPECT_EQ(slabs_in_use(), before);
        block = hak_calloc(1, 20 * kMiB);
        EXPECT_TRUE(all_zero(block, 20 * kMiB));
        hak_free(block);
    }
}

// A search looks at so many superslabs and no more, unless there is nothing else to be had.
TEST(FaultOfReserve, MemoryThatIsFreeServesBeforeThereIsNone) {
    constexpr std::size_t kSlab = 64 << 10;
    constexpr std::size_t kSuperslab = 32 * kSlab;
    constexpr std::size_t kTooSmall = 16 * kSlab;
    constexpr std::size_t kWanted = 20 * kSlab;
    constexpr std::size_t kFitting = 4;
    hak_collect();
    std::vector<void *> holes(100);
    std::vector<void *> kept(holes.size());
    for (std::size_t i = 0; i < holes.size(); i++) {
        std::size_t bytes = i + kFitting < holes.size() ? kTooSmall : kWanted;
        holes[i] = hak_aligned_alloc(kSuperslab, bytes);
        kept[i] = hak_malloc(kSuperslab - bytes);
        ASSERT_NE(holes[i], nullptr);
        ASSERT_EQ(kept[i], static_cast<char *>(holes[i]) + bytes) << "the test needs them in one superslab";
    }
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    std::vector<void *> others;
    while (void *block = hak_malloc(kSuperslab)) {
        others.push_back(block);
    }
    free_blocks(holes);
    for (std::size_t i = 0; i < kFitting; i++) {
        void *block = hak_malloc(kWanted);
        EXPECT_NE(block, nullptr) << i << " of " << kFitting << " holes were found";
        others.push_back(block);
    }
    EXPECT_EQ(hak_malloc(kWanted), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    switch_faults_off();
    others.insert(others.end(), kept.begin(), kept.end());
    free_blocks(others);
}

// Programs that shrink a block take no memory for none.
TEST(FaultOfReserve, LeavesABlockWhereItIsThatIsToShrink) {
    constexpr std::size_t kWanted = 100;
    std::vector<unsigned char *> blocks;
    for (std::size_t size : {std::size_t{60'000}, kMiB, 9 * kMiB}) {
        blocks.push_back(static_cast<unsigned char *>(hak_malloc(size)));
        dirty(blocks.back(), size, 0xA5);
    }
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    std::vector<void *> others;
    for (std::size_t size : {kMiB, std::size_t{64 << 10}, kWanted}) {
        while (void *block = hak_malloc(size)) {
            others.push_back(block);
        }
    }
    for (unsigned char *&block : blocks) {
        auto *shrunk = static_cast<unsigned char *>(hak_realloc(block, kWanted));
        ASSERT_NE(shrunk, nullptr);
        EXPECT_EQ(std::count(shrunk, shrunk + kWanted, 0xA5), static_cast<std::ptrdiff_t>(kWanted));
        block = shrunk;
    }
    switch_faults_off();
    free_blocks(others);
    for (unsigned char *block : blocks) {
        hak_free(block);
    }
}

TEST(FaultOfReserve, ABlockThatIsToShrinkLeavesTheRestToOthers) {
    constexpr std::size_t kWanted = 100 << 10;
    std::vector<void *> blocks(20);
    for (void *&block : blocks) {
        block = hak_malloc(kMiB);
        fill_pattern(block, kWanted, 1);
    }
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    std::vector<void *> others;
    for (std::size_t size : {kMiB, std::size_t{64 << 10}}) {
        while (void *block = hak_malloc(size)) {
            others.push_back(block);
        }
    }
    for (void *&block : blocks) {
        block = hak_realloc(block, kWanted);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(pattern_intact(block, kWanted, kWanted, 1));
        others.push_back(hak_malloc(kMiB / 2));
        EXPECT_NE(others.back(), nullptr);
    }
    switch_faults_off();
    free_blocks(others);
    free_blocks(blocks);
}

// Of blocks freed in no order, the few that a thread keeps for its next allocations lie in most of their
// slabs.
class FaultOfReserveAfterADrop : public testing::TestWithParam<void *(*)(std::size_t)> {};

TEST_P(FaultOfReserveAfterADrop, WhatIsKeptForLaterServesBeforeThereIsNoMemory) {
    constexpr std::size_t kBytes = 64;
    constexpr std::size_t kDropped = 16 * kMiB;
    std::vector<void *> blocks = make_equal_blocks(kDropped / kBytes, kBytes);
    os_fault_set(OS_FAULT_RESERVE, 0, kEveryCall);
    os_fault_set(OS_FAULT_COMMIT, 0, kEveryCall);
    std::vector<void *> others;
    while (void *block = hak_malloc(64 << 10)) {
        others.push_back(block);
    }
    // After one collection, which the request that failed has had, the next comes a second later at most.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    Random random(7);
    shuffle(blocks, random);
    free_blocks(blocks);
    std::size_t served = 0;
    while (void *block = GetParam()(kMiB)) {
        served += kMiB;
        dirty(block, kMiB, 0xA5);
        others.push_back(block);
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_GE(served, kDropped / 4 * 3);
    switch_faults_off();
    free_blocks(others);
}

INSTANTIATE_TEST_SUITE_P(Requests, FaultOfReserveAfterADrop,
                         testing::Values([](std::size_t size) { return hak_malloc(size); },
                                         [](std::size_t size) {
                                             void *block = hak_calloc(1, size);
                                             EXPECT_TRUE(block == nullptr || all_zero(block, size));
                                             return block;
                                         },
                                         [](std::size_t size) { return hak_aligned_alloc(1 << 17, size); },
                                         [](std::size_t size) { return hak_realloc(nullptr, size); }));

} // namespace
