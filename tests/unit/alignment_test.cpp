// Alignment: what was asked for in aligned_alloc, 16 bytes (8 for the smallest) everywhere else.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/live_map.h"
#include "support/pattern.h"
#include "support/statistics.h"

namespace {

using hakmem_test::fill_pattern;
using hakmem_test::kEdges;
using hakmem_test::kMiB;
using hakmem_test::LiveMap;
using hakmem_test::pattern_intact;
using hakmem_test::stats_now;

constexpr std::size_t kLargestAlignment = 64 * kMiB;

std::size_t misalignment(const void *block, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(block) % alignment;
}

std::vector<std::size_t> sizes_around(std::size_t alignment) {
    std::vector<std::size_t> sizes(kEdges.begin(), kEdges.end());
    for (std::size_t size : {alignment - 1, alignment, alignment + 1, 3 * alignment}) {
        sizes.push_back(size);
    }
    return sizes;
}

// All blocks of one alignment live at once, so that one that reaches into another is seen.
void check_alignment(std::size_t alignment) {
    LiveMap live;
    std::vector<void *> blocks;
    const std::vector<std::size_t> sizes = sizes_around(alignment);
    for (std::size_t size : sizes) {
        void *block = hak_aligned_alloc(alignment, size);
        ASSERT_NE(block, nullptr) << size;
        ASSERT_EQ(misalignment(block, alignment), 0u) << size;
        ASSERT_GE(hak_usable_size(block), size);
        ASSERT_TRUE(live.claim(block, hak_usable_size(block))) << size << " overlaps a live block";
        fill_pattern(block, size, alignment + size);
        blocks.push_back(block);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        ASSERT_TRUE(pattern_intact(blocks[i], sizes[i], alignment + sizes[i])) << sizes[i];
        hak_free(blocks[i]);
    }
}

TEST(Alignment, EveryPowerOfTwoUpTo64MiBWithEverySize) {
    for (std::size_t alignment = 1; alignment <= kLargestAlignment; alignment *= 2) {
        SCOPED_TRACE(testing::Message() << "alignment " << alignment);
        check_alignment(alignment);
        if (HasFatalFailure()) {
            return;
        }
    }
}

// Three of each, so that one at least does not come with a refill.
TEST(Alignment, EverySmallSizeWithEverySmallAlignment) {
    for (std::size_t alignment = 1; alignment <= 128; alignment *= 2) {
        for (std::size_t size = 0; size <= 1100; size++) {
            for (int i = 0; i < 3; i++) {
                void *block = hak_aligned_alloc(alignment, size);
                ASSERT_EQ(misalignment(block, alignment), 0u) << size << " bytes at " << alignment;
                ASSERT_GE(hak_usable_size(block), size);
                hak_free(block);
            }
        }
    }
}

TEST(Alignment, AlignedBlocksCanBeResizedAndKeepTheirContents) {
    for (std::size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 2) {
        for (std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{200'000}}) {
            void *block = hak_aligned_alloc(alignment, size);
            ASSERT_NE(block, nullptr);
            fill_pattern(block, size, alignment);
            block = hak_realloc(block, 3 * size);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(pattern_intact(block, size, alignment))
                << "alignment " << alignment << ", size " << size;
            hak_free(block);
        }
    }
}

TEST(Alignment, AlignedBlocksReturnToTheHeapLikeAllOthers) {
    for (std::size_t alignment = 1; alignment <= kLargestAlignment; alignment *= 2) {
        for (std::size_t size :
             {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}, std::size_t{3'000'000}}) {
            hak_free(hak_aligned_alloc(alignment, size));
        }
    }
    hak_tiny_magazine_flush_all();
    const hak_stats_t stats = stats_now();
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_bytes, 0u);
}

TEST(Alignment, WhatIsNoPowerOfTwoGivesEinval) {
    for (std::size_t alignment :
         {0uL, 3uL, 5uL, 6uL, 7uL, 12uL, 24uL, 48uL, 4095uL, 4097uL, (1uL << 32) + 1, ~0uL}) {
        for (std::size_t size : {std::size_t{0}, std::size_t{16}, std::size_t{100'000}}) {
            errno = 0;
            EXPECT_EQ(hak_aligned_alloc(alignment, size), nullptr) << alignment;
            EXPECT_EQ(errno, EINVAL) << alignment;
        }
    }
}

TEST(Alignment, AnAlignmentTooLargeForTheAddressSpaceGivesEnomem) {
    errno = 0;
    EXPECT_EQ(hak_aligned_alloc(std::size_t{1} << 62, 16), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(hak_aligned_alloc(std::size_t{1} << 63, 16), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(Alignment, WhatCannotBeHadCostsNobodyHisCaches) {
    std::vector<void *> blocks(1000);
    for (void *&block : blocks) {
        block = hak_malloc(64);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    const std::size_t cached = stats_now().cached_bytes;
    EXPECT_EQ(hak_aligned_alloc(std::size_t{1} << 50, 64), nullptr);
    EXPECT_EQ(stats_now().cached_bytes, cached);
}

TEST(Alignment, PlainBlocksAreAlignedTo16AndTheSmallestTo8) {
    std::vector<void *> blocks;
    for (std::size_t size = 0; size <= 70'000; size += size < 2000 ? 1 : 61) {
        const std::size_t alignment = size <= 8 ? 8 : 16;
        for (void *block : {hak_malloc(size), hak_calloc(1, size), hak_realloc(hak_malloc(1), size + 1)}) {
            ASSERT_NE(block, nullptr) << size;
            ASSERT_EQ(misalignment(block, alignment), 0u) << size;
            blocks.push_back(block);
        }
    }
    for (void *block : blocks) {
        hak_free(block);
    }
}

} // namespace
