// realloc: where the block stays, and that its contents never get lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/statistics.h"

namespace {

using hakmem_test::address_space_bytes;
using hakmem_test::fill_pattern;
using hakmem_test::kEdges;
using hakmem_test::kLanes;
using hakmem_test::kMiB;
using hakmem_test::kMidLimit;
using hakmem_test::pattern_intact;
using hakmem_test::Random;
using hakmem_test::stats_now;

constexpr std::size_t kHuge = 256 * kMiB;

std::uint64_t live_blocks() {
    hak_tiny_magazine_flush_all();
    return stats_now().live_blocks;
}

TEST(Realloc, OfASmallBlockThatWasLargeForItsAlignmentIsOneOfItsSize) {
    for (const std::size_t size : {std::size_t{5000}, std::size_t{30000}}) {
        void *block = hak_aligned_alloc(std::size_t{1} << 17, 100);
        ASSERT_NE(block, nullptr);
        block = hak_realloc(block, size);
        ASSERT_NE(block, nullptr);
        void *usual = hak_malloc(size);
        EXPECT_EQ(hak_usable_size(block), hak_usable_size(usual)) << size;
        hak_free(usual);
        hak_free(block);
    }
}

// A mark on each page shows a lost one without touching more than a word of it.
void mark_pages(unsigned char *block, std::size_t from, std::size_t to) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t offset = (from + page - 1) / page * page; offset + sizeof offset <= to; offset += page) {
        std::memcpy(block + offset, &offset, sizeof offset);
    }
}

std::size_t first_lost_page(const unsigned char *block, std::size_t size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t offset = 0; offset + sizeof offset <= size; offset += page) {
        if (std::memcmp(block + offset, &offset, sizeof offset) != 0) {
            return offset;
        }
    }
    return SIZE_MAX;
}

TEST(Realloc, OfNullAllocates) {
    for (std::size_t size : kEdges) {
        void *block = hak_realloc(nullptr, size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_GE(hak_usable_size(block), size);
        fill_pattern(block, size, size);
        EXPECT_TRUE(pattern_intact(block, size, size)) << size;
        hak_free(block);
    }
}

TEST(Realloc, ToZeroFreesAndGivesNull) {
    const std::uint64_t before = live_blocks();
    for (std::size_t size : kEdges) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_EQ(hak_realloc(block, 0), nullptr) << size;
    }
    EXPECT_EQ(live_blocks(), before);
}

void stay_in_place_within_a_size_class() {
    for (int i = 0; i < hak_size_class_count(); i++) {
        const std::size_t most = hak_size_class_bytes(i);
        const std::size_t least = i == 0 ? 1 : hak_size_class_bytes(i - 1) + 1;
        void *const block = hak_malloc(least);
        ASSERT_NE(block, nullptr);
        for (std::size_t size : {most, least, (least + most) / 2, most}) {
            ASSERT_EQ(hak_realloc(block, size), block) << least << " to " << size;
        }
        hak_free(block);
    }
}

// In a process of its own, in which no size has got a class of its own.
TEST(Realloc, StaysInPlaceWithinASizeClass) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto stay_and_exit = [] {
        stay_in_place_within_a_size_class();
        std::_Exit(HasFailure() ? 1 : 0);
    };
    EXPECT_EXIT(stay_and_exit(), testing::ExitedWithCode(0), "");
}

TEST(Realloc, FromEverySizeToEverySizeKeepsTheContents) {
    for (std::size_t from : kEdges) {
        for (std::size_t to : kEdges) {
            if (to == 0) {
                continue;
            }
            void *block = hak_malloc(from);
            ASSERT_NE(block, nullptr);
            fill_pattern(block, from, from ^ to);
            void *resized = hak_realloc(block, to);
            ASSERT_NE(resized, nullptr);
            EXPECT_GE(hak_usable_size(resized), to);
            EXPECT_TRUE(pattern_intact(resized, from, std::min(from, to), from ^ to)) << from << " to " << to;
            hak_free(resized);
        }
    }
    EXPECT_EQ(live_blocks(), 0u);
}

TEST(Realloc, GrowingStepByStepKeepsEveryByte) {
    unsigned char *block = nullptr;
    std::size_t size = 0;
    while (size < 8 * kMiB) {
        const std::size_t next = size + size / 8 + 1;
        block = static_cast<unsigned char *>(hak_realloc(block, next));
        ASSERT_NE(block, nullptr);
        std::memset(block + size, static_cast<int>(next & 0xFF), next - size);
        size = next;
    }
    for (std::size_t from = 0; from < size;) {
        const std::size_t next = from + from / 8 + 1;
        for (std::size_t i = from; i < next; i++) {
            ASSERT_EQ(block[i], next & 0xFF) << "byte " << i;
        }
        from = next;
    }
    hak_free(block);
}

// Grows a block to `to` bytes by a hundredth of it at a time; returns how often it was copied.
int grow_by_small_steps(void *&block, std::size_t from, std::size_t to) {
    int copies = 0;
    for (std::size_t size = from; size < to;) {
        size = std::min(size + size / 100 + 1, to);
        void *resized = hak_realloc(block, size);
        EXPECT_NE(resized, nullptr) << size;
        copies += resized != block;
        block = resized;
    }
    return copies;
}

TEST(Realloc, WhatGrowsBySmallStepsIsCopiedAFewTimesUntilItIsTwiceAsLarge) {
    for (std::size_t size = 128; size <= kMidLimit / 2; size *= 2) {
        void *block = hak_malloc(size);
        EXPECT_LE(grow_by_small_steps(block, size, 2 * size), size < 16384 ? 4 : 2) << size;
        hak_free(block);
    }
}

// What a thousand blocks hold, over what was asked for, if make(size) makes one; of sizes to 60,000.
double room_of(const std::function<void *(std::size_t)> &make) {
    Random random(7);
    std::vector<void *> blocks;
    double asked = 0;
    double held = 0;
    for (int i = 0; i < 1000; i++) {
        const std::size_t size = 200 + random.below(60'000);
        blocks.push_back(make(size));
        asked += static_cast<double>(size);
        held += static_cast<double>(hak_usable_size(blocks.back()));
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    return held / asked;
}

TEST(Realloc, WhatHasGrownBySmallStepsHoldsLittleMoreThanItNeeds) {
    EXPECT_LE(room_of([](std::size_t size) {
                  void *block = hak_malloc(100);
                  grow_by_small_steps(block, 100, size);
                  return block;
              }),
              1.25);
    hak_collect(); // so that other tests get no block that is larger than they ask for
}

TEST(Realloc, WhatGrowsByALargeStepHoldsNoMoreThanANewBlock) {
    room_of(hak_malloc); // later blocks may get free ones that are a little larger
    const double made = room_of(hak_malloc);
    for (std::size_t part : {std::size_t{1}, std::size_t{2}}) {
        EXPECT_LE(room_of([part](std::size_t size) {
                      return hak_realloc(hak_malloc(size - size / (part + 1)), size);
                  }),
                  made + 0.05)
            << "by one of " << part << " parts";
    }
    hak_collect();
}

TEST(Realloc, GrowingALargeBlockBetweenOthersKeepsItsContents) {
    Random random(1);
    for (int round = 0; round < 50; round++) {
        const std::size_t size = kMidLimit + 1 + random.below(kMiB);
        void *block = hak_malloc(size);
        void *neighbour = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        ASSERT_NE(neighbour, nullptr);
        fill_pattern(block, size, 1);
        fill_pattern(neighbour, size, 2);
        if (round % 2 != 0) {
            EXPECT_TRUE(pattern_intact(neighbour, size, 2));
            hak_free(neighbour);
        }
        const std::size_t grown = size + random.below(kMiB);
        block = hak_realloc(block, grown);
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(pattern_intact(block, size, 1)) << size << " to " << grown;
        fill_pattern(block, grown, 3);
        if (round % 2 == 0) {
            EXPECT_TRUE(pattern_intact(neighbour, size, 2))
                << size << " to " << grown << " wrote into a neighbour";
            hak_free(neighbour);
        }
        hak_free(block);
    }
}

TEST(Realloc, GrowingTo256MiBKeepsEveryPage) {
    std::size_t size = kMiB;
    auto *block = static_cast<unsigned char *>(hak_malloc(size));
    ASSERT_NE(block, nullptr);
    mark_pages(block, 0, size);
    while (size < kHuge) {
        const std::size_t next = std::min(kHuge, size + size / 2);
        block = static_cast<unsigned char *>(hak_realloc(block, next));
        ASSERT_NE(block, nullptr) << next;
        ASSERT_EQ(first_lost_page(block, size), SIZE_MAX) << size << " to " << next;
        mark_pages(block, size, next);
        size = next;
    }
    ASSERT_EQ(first_lost_page(block, size), SIZE_MAX);
    for (; size > kMiB; size = size * 2 / 3) {
        ASSERT_EQ(first_lost_page(block, size), SIZE_MAX) << "shrunk to " << size;
        block = static_cast<unsigned char *>(hak_realloc(block, size));
        ASSERT_NE(block, nullptr);
    }
    hak_free(block);
}

// One round leaves behind 32 GiB of moved ranges if they are not used again.
void grow_and_free(std::size_t step) {
    void *block = nullptr;
    void *obstacle = nullptr;
    for (std::size_t size = 2 * step; size <= kHuge; size += step) {
        block = hak_realloc(block, size);
        ASSERT_NE(block, nullptr);
        hak_free(obstacle);
        // What stands behind the block forces it to move.
        obstacle = hak_malloc(step);
        ASSERT_NE(obstacle, nullptr);
    }
    hak_free(obstacle);
    hak_free(block);
}

TEST(Realloc, GrowingAgainAndAgainDoesNotEatTheAddressSpace) {
    grow_and_free(4 * kMiB);
    const std::size_t after_first = address_space_bytes();
    for (int round = 0; round < 10; round++) {
        grow_and_free(4 * kMiB);
    }
    EXPECT_LE(address_space_bytes(), after_first + 4096 * kMiB);
}

TEST(Realloc, WhatAMovedHugeBlockLeavesBehindIsZeroForCalloc) {
    for (int round = 0; round < 4; round++) {
        void *dirty = hak_malloc(4 * kMiB);
        ASSERT_NE(dirty, nullptr);
        std::memset(dirty, 0xA5, 4 * kMiB);
        hak_free(dirty);
        // Stands on the dirty pages, and leaves some of them beyond its end.
        void *block = hak_malloc(3 * kMiB);
        void *obstacle = hak_malloc(4 * kMiB);
        void *moved = hak_realloc(block, 9 * kMiB);
        ASSERT_NE(moved, nullptr);
        std::array<void *, 4> zeroed{};
        for (void *&zeros : zeroed) {
            zeros = hak_calloc(1, 4 * kMiB);
            ASSERT_NE(zeros, nullptr);
            EXPECT_TRUE(hakmem_test::all_zero(zeros, 4 * kMiB)) << "round " << round;
        }
        for (void *zeros : zeroed) {
            hak_free(zeros);
        }
        hak_free(obstacle);
        hak_free(moved);
    }
}

// Whoever resizes blocks all the time does not pay for a copy each time.
TEST(Realloc, ShrinksABlockWhereItIsThatWasResizedBefore) {
    void *block = hak_malloc(kMiB);
    for (std::size_t size = kMiB - kMiB / 8; size > 100'000; size = size * 2 / 5) {
        fill_pattern(block, size, 1);
        void *shrunk = hak_realloc(block, size);
        EXPECT_EQ(shrunk, block) << size;
        EXPECT_TRUE(pattern_intact(shrunk, size, size, 1)) << size;
        block = shrunk;
    }
    hak_free(block);
}

TEST(Realloc, ThatFailsLeavesTheBlockAlone) {
    for (std::size_t size : kLanes) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        fill_pattern(block, size, size);
        const std::size_t usable = hak_usable_size(block);
        for (std::size_t impossible :
             {static_cast<std::size_t>(PTRDIFF_MAX) + 1, std::size_t{SIZE_MAX}, std::size_t{1} << 48}) {
            errno = 0;
            EXPECT_EQ(hak_realloc(block, impossible), nullptr) << size;
            EXPECT_EQ(errno, ENOMEM) << size;
        }
        EXPECT_TRUE(pattern_intact(block, size, size)) << size;
        EXPECT_EQ(hak_usable_size(block), usable);
        hak_free(block);
    }
}

TEST(Realloc, RandomResizingOfOneBlockKeepsThePrefix) {
    Random random(2);
    void *block = nullptr;
    std::size_t size = 0;
    std::uint64_t stamp = 0;
    for (std::size_t i = 0; i < hakmem_test::scaled(200'000); i++) {
        const std::size_t next = 1 + random.log_uniform(i % 64 == 0 ? 25 : 14);
        block = hak_realloc(block, next);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(pattern_intact(block, size, std::min(size, next), stamp)) << size << " to " << next;
        size = next;
        stamp = random.next();
        fill_pattern(block, size, stamp);
    }
    hak_free(block);
}

} // namespace
