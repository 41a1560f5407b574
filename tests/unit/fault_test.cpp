// The OS layer fails at any call: an allocation then succeeds or gives NULL, and nothing is lost.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "arena/layout.h"
#include "hakmem.h"
#include "os/fault.h"
#include "support/equal_blocks.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/threads.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::fill_pattern;
using hakmem_test::free_blocks;
using hakmem_test::kEdges;
using hakmem_test::kMiB;
using hakmem_test::make_equal_blocks;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::shuffle;

constexpr std::array<const char *, OS_FAULT_KINDS> kKindNames = {"Reserve", "Commit", "Purge", "Remap"};
constexpr long kEveryCall = -1;

void switch_faults_off() {
    for (int kind = 0; kind < OS_FAULT_KINDS; kind++) {
        os_fault_set(static_cast<os_fault>(kind), 0, 0);
    }
}

// Random operations whose failure is allowed, but not what a failure may break.
class Workload {
  public:
    explicit Workload(std::uint64_t stream) : random_(stream), blocks_(200) {
    }

    void run(std::size_t operations) {
        for (std::size_t i = 0; i < operations && !testing::Test::HasFailure(); i++) {
            Block &block = blocks_[random_.below(blocks_.size())];
            if (block.at == nullptr) {
                allocate(block);
            } else if (random_.one_in(3)) {
                resize(block, 1 + random_size());
            } else {
                release(block);
            }
            if (random_.one_in(500)) {
                hak_collect();
            }
            if (random_.one_in(25)) {
                make_a_huge_block_move();
            }
        }
    }

    void release_all() {
        for (Block &block : blocks_) {
            if (block.at != nullptr) {
                release(block);
            }
        }
    }

    std::size_t failures() const {
        return failures_;
    }

  private:
    struct Block {
        void *at = nullptr;
        std::size_t size = 0;
        std::uint64_t stamp = 0;
    };

    std::size_t random_size() {
        return random_.log_uniform(random_.one_in(20) ? 26 : random_.one_in(4) ? 20 : 14);
    }

    void allocate(Block &block) {
        const std::uint64_t kind = random_.below(4);
        // Looking at every byte of the largest would take most of the time.
        const std::size_t size = kind == 2 ? std::min(random_size(), 4 * kMiB) : random_size();
        errno = 0;
        void *at = kind < 2    ? hak_malloc(size)
                   : kind == 2 ? hak_calloc(1, size)
                               : hak_aligned_alloc(std::size_t{1} << random_.below(22), size);
        if (kind == 2 && at != nullptr) {
            ASSERT_TRUE(all_zero(at, size)) << size;
        }
        keep(block, at, size);
    }

    void make_a_huge_block_move() {
        Block block;
        keep(block, hak_malloc(3 * kMiB), 3 * kMiB);
        void *obstacle = hak_malloc(3 * kMiB);
        if (block.at != nullptr) {
            resize(block, 20 * kMiB);
            release(block);
        }
        hak_free(obstacle);
    }

    void keep(Block &block, void *at, std::size_t size) {
        if (at == nullptr) {
            ASSERT_EQ(errno, ENOMEM) << size;
            failures_++;
            return;
        }
        ASSERT_GE(hak_usable_size(at), size);
        block = {at, size, random_.next()};
        fill_pattern(at, size, block.stamp);
    }

    void resize(Block &block, std::size_t size) {
        errno = 0;
        void *at = hak_realloc(block.at, size);
        if (at != nullptr) {
            ASSERT_TRUE(pattern_intact(at, block.size, std::min(size, block.size), block.stamp))
                << block.size << " to " << size;
        }
        keep(block, at, size);
        ASSERT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
    }

    void release(Block &block) {
        ASSERT_TRUE(pattern_intact(block.at, block.size, block.stamp)) << block.size;
        hak_free(block.at);
        block = Block{};
    }

    Random random_;
    std::vector<Block> blocks_;
    std::size_t failures_ = 0;
};

void expect_everything_works() {
    for (std::size_t size : kEdges) {
        std::array<void *, 6> blocks{};
        for (void *&block : blocks) {
            block = hak_calloc(1, size);
            ASSERT_NE(block, nullptr) << size << ", with faults switched off";
            ASSERT_TRUE(all_zero(block, size)) << size;
        }
        for (void *&block : blocks) {
            block = hak_realloc(block, size + size / 2 + 1);
            ASSERT_NE(block, nullptr) << size << ", with faults switched off";
            hak_free(block);
        }
    }
}

std::uint64_t fallbacks() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.fallbacks;
}

enum Outcome { kNoCallFailed = 10, kLostNothing = 11, kBroken = 12 };

Outcome run_round(os_fault kind, long after, long count) {
    const ResidentMeter meter;
    Workload workload(static_cast<std::uint64_t>(after * 3 + count + 1));
    os_fault_set(kind, after, count);
    workload.run(1500);
    workload.release_all();
    hak_collect();
    switch_faults_off();
    const bool failed = workload.failures() + fallbacks() > 0;
    expect_everything_works();
    hak_collect();
    meter.expect_growth_within(4 * kMiB, "after hak_collect with faults switched off");
    hak_stats_t stats{};
    hak_stats_get(&stats);
    EXPECT_EQ(stats.live_blocks, 0u);
    return testing::Test::HasFailure() ? kBroken : failed ? kLostNothing : kNoCallFailed;
}

// A sanitizer gets fewer rounds, not shorter ones: a short one does not come to move huge blocks.
constexpr long kRoundStep = std::max(1, HAKMEM_TEST_DIVISOR / 2);

// Each round is a process of its own that starts without a heap, or most calls would never be made again.
[[noreturn]] void run_every_round(os_fault kind) {
    hakmem_test::test_seed(); // chosen once, for all rounds
    std::size_t reached = 0;
    for (const long count : {1L, 3L, kEveryCall}) {
        for (long after = 0; after <= 50; after += kRoundStep) {
            const pid_t child = fork();
            if (child == 0) {
                std::_Exit(run_round(kind, after, count));
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) == kBroken) {
                std::fprintf(stderr, "broken where %ld calls fail after %ld\n", count, after);
                std::_Exit(1);
            }
            reached += WEXITSTATUS(status) == kLostNothing ? 1 : 0;
        }
    }
    std::fprintf(stderr, "a call failed in %zu rounds\n", reached);
    std::_Exit(reached > 0 ? 0 : 1);
}

class Fault : public testing::TestWithParam<int> {
  protected:
    Fault() : kind_(static_cast<os_fault>(GetParam())) {
    }
    ~Fault() override {
        switch_faults_off();
    }

    os_fault kind_;
};

TEST_P(Fault, AtAnyCallLosesNothing) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(run_every_round(kind_), testing::ExitedWithCode(0), "");
}

TEST_P(Fault, FromTheVeryFirstCallOn) {
    const auto first_use = [this] {
        os_fault_set(kind_, 0, kEveryCall);
        Workload workload(1);
        workload.run(1000);
        workload.release_all();
        switch_faults_off();
        if (kind_ == OS_FAULT_RESERVE || kind_ == OS_FAULT_COMMIT) {
            EXPECT_GT(workload.failures(), 0u) << "memory came from nowhere";
        }
        expect_everything_works();
        std::_Exit(HasFailure() ? 1 : 0);
    };
    // A process of its own, so that the allocator has not started yet.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(first_use(), testing::ExitedWithCode(0), "");
}

// As under a limit that leaves room for little: what is asked for beyond the least must not be missed.
TEST(FaultOnce, OfTheFirstCommitCostsNothing) {
    const auto first_use = [] {
        os_fault_set(OS_FAULT_COMMIT, 0, 1);
        EXPECT_NE(hak_malloc(100), nullptr);
        EXPECT_NE(hak_malloc(1000), nullptr);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(first_use(), testing::ExitedWithCode(0), "");
}

TEST_P(Fault, InNewThreadsLosesNothing) {
    for (long after = 0; after < 12; after++) {
        os_fault_set(kind_, after, kEveryCall);
        run_in_thread([&] {
            Workload workload(static_cast<std::uint64_t>(after));
            workload.run(scaled(2000));
            workload.release_all();
        });
        switch_faults_off();
        run_in_thread(expect_everything_works);
        ASSERT_FALSE(HasFailure()) << "after " << after;
    }
}

TEST_P(Fault, ThatComesAndGoesUnderManyThreadsLosesNothing) {
    std::atomic<std::size_t> running{3};
    run_threads(4, [&](std::size_t number) {
        if (number == 0) {
            Random random(number);
            while (running.load() > 0) {
                os_fault_set(kind_, static_cast<long>(random.below(4)), static_cast<long>(random.below(20)));
                std::this_thread::yield();
            }
            return;
        }
        Workload workload(number);
        workload.run(scaled(50'000));
        workload.release_all();
        running--;
    });
    switch_faults_off();
    ASSERT_FALSE(HasFailure());
    expect_everything_works();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fault, testing::Range(0, static_cast<int>(OS_FAULT_KINDS)),
                         [](const testing::TestParamInfo<int> &info) {
                             return kKindNames[static_cast<std::size_t>(info.param)];
                         });

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
                std::memset(block, 0xDB, hak_usable_size(block));
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
            std::memset(freed_[i], 1, kBytes);
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

std::uint64_t retained_bytes() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.retained_bytes;
}

TEST(FaultOfPurge, KeepsWhatIsRefusedAndNothingElse) {
    hak_collect();
    const std::uint64_t before = retained_bytes();
    Ranges ranges(100);
    ranges.free();
    const long refused = 20;
    os_fault_set(OS_FAULT_PURGE, 0, refused);
    hak_collect();
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    EXPECT_LE(retained_bytes(), before + refused * 2 * (64 << 10));
    hak_collect();
    EXPECT_LE(retained_bytes(), before);
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
    std::memset(block, 1, 3 * kMiB);
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
    std::memset(block, 0xC3, size);
    for (; size < 100 * kMiB; size += size / 2) {
        void *obstacle = hak_malloc(size);
        block = static_cast<unsigned char *>(hak_realloc(block, size + size / 2));
        hak_free(obstacle);
        ASSERT_NE(block, nullptr);
        // Equal to itself one byte on, and so the first byte throughout.
        ASSERT_TRUE(block[0] == 0xC3 && std::memcmp(block, block + 1, size - 1) == 0) << size;
        std::memset(block, 0xC3, size + size / 2);
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

std::uint64_t reserved_bytes() {
    hak_stats_t stats{};
    hak_stats_get(&stats);
    return stats.reserved_bytes;
}

TEST(FaultOfCommit, LeavesNoRegionBehindThatServesNobody) {
    void *const kept = hak_malloc(150 * kMiB);
    ASSERT_NE(kept, nullptr);
    std::size_t failed = 0;
    for (const std::size_t wanted : {kMiB, 250 * kMiB, 400 * kMiB}) {
        std::vector<void *> others;
        for (long after = 0; after < 20; after++) {
            const std::uint64_t before = reserved_bytes();
            os_fault_set(OS_FAULT_COMMIT, after % 10, kEveryCall);
            void *const block = hak_malloc(wanted);
            os_fault_set(OS_FAULT_COMMIT, 0, 0);
            if (block != nullptr) {
                others.push_back(block);
            } else {
                failed++;
                ASSERT_EQ(reserved_bytes(), before) << wanted << " after " << after;
            }
        }
        free_blocks(others);
    }
    EXPECT_GT(failed, 0u);
    hak_free(kept);
}

// As near the limit of mappings: pages that are under way come back, and their target serves again.
TEST(FaultOfRemap, HalfwayLosesNoMemory) {
    const auto slabs_in_use = [] {
        hak_stats_t stats{};
        hak_stats_get(&stats);
        return stats.slabs_in_use;
    };
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
        std::memset(blocks.back(), 0xA5, size);
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
        std::memset(block, 0xA5, kMiB);
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
