// Flushing magazines: what the calls return, and that flushed blocks can be had again.
#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <set>
#include <vector>

#include "hakmem.h"
#include "support/equal_blocks.h"
#include "support/lanes.h"
#include "support/statistics.h"
#include "support/threads.h"

namespace {

using hakmem_test::free_blocks;
using hakmem_test::make_equal_blocks;
using hakmem_test::run_in_thread;
using hakmem_test::stats_now;

constexpr std::size_t kSlabBytes = 64 * hakmem_test::kKiB;

TEST(Magazine, FlushGivesTheNumberOfBlocksThatWereCached) {
    for (int size_class = 0; size_class < hak_tiny_class_count(); size_class++) {
        run_in_thread([=] {
            EXPECT_EQ(hak_tiny_magazine_flush(size_class), 0) << "of a new thread, class " << size_class;
            void *first = hak_malloc(hak_size_class_bytes(size_class));
            void *second = hak_malloc(hak_size_class_bytes(size_class));
            hak_tiny_magazine_flush(size_class);
            hak_free(first);
            hak_free(second);
            EXPECT_EQ(hak_tiny_magazine_flush(size_class), 2) << "class " << size_class;
            EXPECT_EQ(hak_tiny_magazine_flush(size_class), 0) << "class " << size_class;
        });
    }
}

TEST(Magazine, FlushOfOneClassLeavesTheOthersAlone) {
    run_in_thread([] {
        void *small = hak_malloc(16);
        void *bigger = hak_malloc(512);
        hak_tiny_magazine_flush_all();
        hak_free(small);
        hak_free(bigger);
        EXPECT_EQ(hak_tiny_magazine_flush(hak_size_class_of(16)), 1);
        EXPECT_EQ(hak_tiny_magazine_flush(hak_size_class_of(512)), 1);
    });
}

TEST(Magazine, FlushOfWhatIsNoTinyClassGivesEinval) {
    for (int size_class : {-1, hak_tiny_class_count(), hak_size_class_count(), INT_MIN, INT_MAX}) {
        errno = 0;
        EXPECT_EQ(hak_tiny_magazine_flush(size_class), -1) << size_class;
        EXPECT_EQ(errno, EINVAL) << size_class;
    }
}

TEST(Magazine, FlushAllCoversTinyMidAndRemoteBlocks) {
    std::vector<void *> foreign;
    run_in_thread([&] {
        for (int i = 0; i < 5; i++) {
            foreign.push_back(hak_malloc(64));
        }
    });
    void *tiny = hak_malloc(64);
    void *mid = hak_malloc(10'000);
    hak_tiny_magazine_flush_all();
    hak_free(tiny);
    hak_free(mid);
    for (void *block : foreign) {
        hak_free(block);
    }
    // An ended owner's slab may have been adopted meanwhile, so that its blocks count as own ones: all seven
    // count.
    EXPECT_EQ(hak_tiny_magazine_flush_all(), 7u);
    EXPECT_EQ(stats_now().cached_bytes, 0u);
    EXPECT_EQ(stats_now().live_blocks, 0u);
}

TEST(Magazine, FlushedBlocksAreHandedOutAgain) {
    constexpr std::size_t kCount = 2000;
    std::set<void *> first;
    for (std::size_t i = 0; i < kCount; i++) {
        ASSERT_TRUE(first.insert(hak_malloc(48)).second);
    }
    const std::uint64_t slabs = stats_now().slabs_in_use;
    for (void *block : first) {
        hak_free(block);
    }
    hak_tiny_magazine_flush_all();
    std::set<void *> second;
    for (std::size_t i = 0; i < kCount; i++) {
        ASSERT_TRUE(second.insert(hak_malloc(48)).second) << "handed out twice";
    }
    EXPECT_LE(stats_now().slabs_in_use, slabs);
    for (void *block : second) {
        hak_free(block);
    }
}

TEST(Magazine, EveryBlockOfASlabCanBeLiveAtOnce) {
    for (int size_class = 0; size_class < hak_size_class_count(); size_class++) {
        const std::size_t size = hak_size_class_bytes(size_class);
        const std::size_t run = hak_size_class_slab_bytes(size_class);
        // The first block also sets up what the thread needs for good.
        std::set<void *> blocks = {hak_malloc(size)};
        const std::uint64_t before = stats_now().slabs_in_use;
        while (blocks.size() < 4 * (run / size)) {
            ASSERT_TRUE(blocks.insert(hak_malloc(size)).second) << size << " handed out twice";
        }
        const std::uint64_t slabs_of_a_run = run / kSlabBytes;
        EXPECT_LE(stats_now().slabs_in_use - before, 4 * slabs_of_a_run)
            << size << ": the first run and three more hold all, one more may have been refilled from";
        for (void *block : blocks) {
            hak_free(block);
        }
        hak_tiny_magazine_flush_all();
    }
}

void allocate_and_free(std::size_t count, std::size_t size) {
    free_blocks(make_equal_blocks(count, size));
}

TEST(Magazine, WhatIsInOneGoesToItsSlabsWhileTheThreadUsesOtherSizes) {
    run_in_thread([] {
        const int size_class = hak_size_class_of(1000);
        allocate_and_free(200, 1000);
        for (int round = 0; round < 300; round++) {
            allocate_and_free(5000, 100);
        }
        EXPECT_EQ(hak_tiny_magazine_flush(size_class), 0);
    });
}

// Those of a loop that needs them again and again stay.
TEST(Magazine, WhatIsUsedAllTheTimeStaysInOne) {
    run_in_thread([] {
        const int size_class = hak_size_class_of(1000);
        for (int round = 0; round < 300; round++) {
            allocate_and_free(5000, 100);
            allocate_and_free(50 + static_cast<std::size_t>(round) % 7, 1000);
        }
        EXPECT_GT(hak_tiny_magazine_flush(size_class), 50);
    });
}

// Those of classes that hold many leave room for those that come later.
TEST(Magazine, ThereIsRoomForThoseOfEveryClass) {
    run_in_thread([] {
        for (const std::size_t size : {16U, 32U, 48U, 64U, 80U, 96U, 112U, 128U}) {
            for (int round = 0; round < 30; round++) {
                allocate_and_free(20'000, size);
            }
        }
        constexpr int kRounds = 100;
        for (std::size_t size = 144; size <= 9000; size += size / 8) {
            allocate_and_free(100, size);
            for (int round = 0; round < 10; round++) {
                allocate_and_free(100, size);
            }
        }
        for (const std::size_t size : {200U, 300U, 500U, 900U, 1500U, 2500U, 5000U, 9000U}) {
            allocate_and_free(30, size);
            const std::uint64_t refills = stats_now().refills;
            for (int round = 0; round < kRounds; round++) {
                allocate_and_free(10, size);
            }
            EXPECT_LT(stats_now().refills - refills, kRounds) << "ten times as many, without a magazine";
        }
    });
}

} // namespace
