// Size classes: their order, their fit, and what the sizes that blocks really get have to do with them.
#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hakmem.h"
#include "support/lanes.h"
#include "support/random.h"
#include "support/statistics.h"

namespace {

using hakmem_test::kMidLimit;
using hakmem_test::kTinyLimit;
using hakmem_test::stats_now;

constexpr std::size_t kSlabBytes = 64 * hakmem_test::kKiB;

TEST(SizeClass, TinyClassesComeFirstAndTheLastOfEachLaneIsItsLimit) {
    const int tiny = hak_tiny_class_count();
    const int all = hak_size_class_count();
    ASSERT_GT(tiny, 0);
    ASSERT_GT(all, tiny);
    EXPECT_EQ(hak_size_class_bytes(tiny - 1), kTinyLimit);
    EXPECT_GT(hak_size_class_bytes(tiny), kTinyLimit);
    EXPECT_EQ(hak_size_class_bytes(all - 1), kMidLimit);
    EXPECT_EQ(hak_size_class_of(kTinyLimit), tiny - 1);
    EXPECT_EQ(hak_size_class_of(kTinyLimit + 1), tiny);
    EXPECT_EQ(hak_size_class_of(kMidLimit), all - 1);
}

TEST(SizeClass, BytesGrowWithTheNumber) {
    for (int i = 1; i < hak_size_class_count(); i++) {
        EXPECT_GT(hak_size_class_bytes(i), hak_size_class_bytes(i - 1)) << "class " << i;
    }
}

TEST(SizeClass, TheFirstIsEightAndTheOthersAreMultiplesOfSixteen) {
    EXPECT_EQ(hak_size_class_bytes(0), 8u);
    for (std::size_t size = 0; size <= 8; size++) {
        EXPECT_EQ(hak_size_class_of(size), 0) << size;
    }
    for (int i = 1; i < hak_size_class_count(); i++) {
        EXPECT_EQ(hak_size_class_bytes(i) % 16, 0u) << "class " << i;
    }
}

TEST(SizeClass, ARequestGetsTheSmallestClassThatHoldsIt) {
    for (std::size_t size = 0; size <= kMidLimit; size++) {
        const int size_class = hak_size_class_of(size);
        ASSERT_GE(size_class, 0) << size;
        ASSERT_LT(size_class, hak_size_class_count()) << size;
        ASSERT_GE(hak_size_class_bytes(size_class), size);
        if (size_class > 0) {
            ASSERT_LT(hak_size_class_bytes(size_class - 1), size) << "class " << size_class;
        }
    }
}

TEST(SizeClass, InternalWasteStaysUnderAnEighthAbove128Bytes) {
    for (std::size_t size = 129; size <= kMidLimit; size++) {
        const std::size_t waste = hak_size_class_bytes(hak_size_class_of(size)) - size;
        ASSERT_LE(waste * 8, size) << size;
    }
}

// Of the tail only what shares a page with the last block is resident.
TEST(SizeClass, TailOfASlabTakesLittleAddressSpaceAndHardlyAnyMemory) {
    for (int i = 0; i < hak_size_class_count(); i++) {
        const std::size_t slab = hak_size_class_slab_bytes(i);
        const std::size_t block = hak_size_class_bytes(i);
        ASSERT_GT(slab, 0u) << "class " << i;
        EXPECT_EQ(slab % kSlabBytes, 0u) << "class " << i;
        const std::size_t tail = slab % block;
        EXPECT_LE(tail * 16, slab) << "class " << i << " of " << block << " bytes in " << slab;
        if (i < hak_tiny_class_count()) {
            EXPECT_EQ(slab, kSlabBytes) << "class " << i;
        } else {
            EXPECT_LE(tail % 4096 * 128, slab) << "class " << i << " of " << block << " bytes in " << slab;
        }
    }
}

// One that holds a few blocks, each with a tail of its own that is as small as above.
TEST(SizeClass, ASlabOfTheMidLaneIsNoLongerThanThatTakes) {
    for (int i = hak_tiny_class_count(); i < hak_size_class_count(); i++) {
        const std::size_t block = hak_size_class_bytes(i);
        const std::size_t slab = hak_size_class_slab_bytes(i);
        EXPECT_GE(slab / block, 4u) << "class " << i;
        for (std::size_t shorter = kSlabBytes; shorter < slab; shorter += kSlabBytes) {
            const std::size_t tail = shorter % block;
            EXPECT_TRUE(shorter / block < 4 || tail * 16 > shorter || tail % 4096 * 128 > shorter)
                << "class " << i << " of " << block << " bytes in " << slab << ", not " << shorter;
        }
    }
}

// Blocks of one size only, and many of them: they get a class that fits.
TEST(SizeClass, ManyBlocksOfOneMidSizeHardlyWasteAnything) {
    for (const std::size_t size : {1'040u, 2'100u, 10'000u, 40'000u}) {
        std::vector<void *> blocks;
        std::size_t usable = 0;
        for (std::size_t got = 0; got < 16 * hakmem_test::kMiB; got += size) {
            void *block = hak_malloc(size);
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
            blocks.push_back(block);
            usable += hak_usable_size(block);
        }
        EXPECT_LE(usable - blocks.size() * size, blocks.size() * size / 50) << size;
        // Larger ones of the same class still are served, beside them.
        const std::size_t spaced = hak_size_class_bytes(hak_size_class_of(size));
        void *larger = hak_malloc(spaced);
        EXPECT_GE(hak_usable_size(larger), spaced);
        std::memset(larger, 0x5a, spaced);
        hak_free(larger);
        for (void *block : blocks) {
            hak_free(block);
        }
    }
}

TEST(SizeClass, GoodSizeIsTheUsableSizeOfARealBlock) {
    for (std::size_t size = 0; size <= 70'000; size++) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr) << size;
        ASSERT_EQ(hak_good_size(size), hak_usable_size(block)) << size;
        ASSERT_GE(hak_usable_size(block), size);
        hak_free(block);
    }
    for (std::size_t size :
         {100'000uL, 1'000'000uL, 2uL << 20, (2uL << 20) + 1, 10'000'000uL, 100'000'000uL}) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr) << size;
        EXPECT_EQ(hak_good_size(size), hak_usable_size(block)) << size;
        EXPECT_GE(hak_usable_size(block), size);
        hak_free(block);
    }
}

TEST(SizeClass, GoodSizeOfAClassIsItsBytes) {
    for (std::size_t size = 0; size <= kMidLimit; size++) {
        ASSERT_EQ(hak_good_size(size), hak_size_class_bytes(hak_size_class_of(size))) << size;
    }
}

TEST(SizeClass, GoodSizeOfAnImpossibleRequestIsZero) {
    EXPECT_EQ(hak_good_size(PTRDIFF_MAX), 0u);
    EXPECT_EQ(hak_good_size(static_cast<std::size_t>(PTRDIFF_MAX) + 1), 0u);
    EXPECT_EQ(hak_good_size(SIZE_MAX), 0u);
}

TEST(SizeClass, UsableSizeOfNullIsZero) {
    EXPECT_EQ(hak_usable_size(nullptr), 0u);
}

TEST(SizeClass, QuestionsOutsideTheClassesGiveEinval) {
    for (std::size_t size : {kMidLimit + 1, std::size_t{1} << 30, static_cast<std::size_t>(SIZE_MAX)}) {
        errno = 0;
        EXPECT_EQ(hak_size_class_of(size), -1) << size;
        EXPECT_EQ(errno, EINVAL) << size;
    }
    for (int size_class : {-1, hak_size_class_count(), INT_MIN, INT_MAX}) {
        errno = 0;
        EXPECT_EQ(hak_size_class_bytes(size_class), 0u) << size_class;
        EXPECT_EQ(errno, EINVAL) << size_class;
        errno = 0;
        EXPECT_EQ(hak_size_class_slab_bytes(size_class), 0u) << size_class;
        EXPECT_EQ(errno, EINVAL) << size_class;
    }
}

TEST(SizeClass, BlocksOfOneSizeGetAClassOfTheirOwn) {
    const std::uint64_t had = stats_now().exact_classes;
    std::vector<void *> blocks(2000);
    for (void *&block : blocks) {
        block = hak_malloc(10'000);
        ASSERT_NE(block, nullptr);
    }
    EXPECT_EQ(stats_now().exact_classes, had + 1);
    EXPECT_EQ(hak_usable_size(blocks.back()), 10'000u);
    for (void *block : blocks) {
        hak_free(block);
    }
}

// Their largest is another one each time one looks, but for one run in a thousand, by chance.
TEST(SizeClass, SizesSpreadEvenlyGetNone) {
    const std::uint64_t had = stats_now().exact_classes;
    hakmem_test::Random random(5);
    std::vector<void *> blocks(3000);
    for (std::size_t n = 0; n < 30'000; n++) {
        void *&block = blocks[random.below(blocks.size())];
        hak_free(block);
        block = hak_malloc(8'193 + random.below(24'576));
        ASSERT_NE(block, nullptr);
    }
    EXPECT_LE(stats_now().exact_classes, had + 1);
    for (void *block : blocks) {
        hak_free(block);
    }
}

} // namespace
