// Huge blocks are runs of whole superslabs: what lies behind the block is neither counted nor handed out as
// something that it is not.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "hakmem.h"
#include "support/huge_pages.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/waiting.h"

namespace {

using hakmem_test::faults_so_far;
using hakmem_test::happens;
using hakmem_test::kernel_has_huge_pages;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::scaled;
using hakmem_test::touch;

constexpr std::size_t kSuperslab = 2 * kMiB;

class HugeLane : public testing::Test {
  protected:
    HugeLane() {
        hak_option_set("retain_min", "1G"); // what is free stays resident unless a test says otherwise
    }
    ~HugeLane() override {
        hak_option_set("retain_min", "2816K");
        hak_option_set("retain_percent", "12");
        hak_option_set("retain_grace", "128M");
        hak_option_set("huge_pages", "1");
        hak_collect();
    }
};

struct Block {
    char *at = nullptr;
    std::size_t size = 0;
};

// Of the huge lane, and of the large one, which takes what is left.
std::size_t some_size(Random &random) {
    return random.one_in(3) ? kSuperslab + 1 + random.below(8 * kMiB)
                            : 64 * kKiB + 1 + random.below(kSuperslab - 64 * kKiB);
}

bool is_zero(const char *at, std::size_t bytes) {
    return at[0] == 0 && std::memcmp(at, at + 1, bytes - 1) == 0;
}

// As large as it is usable, and written to the last byte.
void fill(Block &block) {
    block.size = hak_usable_size(block.at);
    std::memset(block.at, 0xA5, block.size);
}

void calloc_is_zero_whatever_was_there() {
    Random random(20'261'122);
    std::vector<Block> blocks(12);
    for (std::size_t i = 0; i < scaled(2'000); i++) {
        Block &block = blocks[random.below(blocks.size())];
        if (block.at == nullptr || random.one_in(3)) {
            hak_free(block.at);
            const std::size_t size = some_size(random);
            const bool zeroed = random.one_in(2);
            block.at = static_cast<char *>(zeroed ? hak_calloc(1, size) : hak_malloc(size));
            ASSERT_NE(block.at, nullptr);
            if (zeroed) {
                ASSERT_TRUE(is_zero(block.at, size)) << "after " << i << " steps";
            }
        } else {
            const std::size_t size =
                random.one_in(2) ? some_size(random) : block.size - random.below(block.size / 4);
            auto *moved = static_cast<char *>(hak_realloc(block.at, size));
            ASSERT_NE(moved, nullptr);
            const std::size_t kept = std::min(block.size, size);
            ASSERT_EQ(static_cast<unsigned char>(moved[0]), 0xA5);
            ASSERT_EQ(static_cast<unsigned char>(moved[kept - 1]), 0xA5) << "after " << i << " steps";
            block.at = moved;
        }
        fill(block);
        if (random.one_in(64)) {
            hak_collect();
        }
    }
    for (const Block &block : blocks) {
        hak_free(block.at);
    }
}

TEST_F(HugeLane, CallocIsZeroWhateverWasThere) {
    calloc_is_zero_whatever_was_there();
}

// Most blocks begin or end with what others left.
TEST_F(HugeLane, CallocIsZeroWhereAPartWasGivenBack) {
    hak_option_set("retain_min", "5M");
    hak_option_set("retain_grace", "0");
    calloc_is_zero_whatever_was_there();
}

TEST_F(HugeLane, CallocDoesNotTouchWhatIsZeroAlready) {
    constexpr std::size_t kUsed = 2 * kSuperslab;
    constexpr std::size_t kSize = 40 * kMiB;
    hak_collect();
    void *used = hak_malloc(kUsed);
    std::memset(used, 0xA5, kUsed);
    hak_free(used);
    const ResidentMeter meter;
    auto *block = static_cast<char *>(hak_calloc(1, kSize));
    meter.expect_growth_within(kUsed + kMiB, "by a block of which a part was resident");
    EXPECT_TRUE(is_zero(block, kSize));
    hak_free(block);
}

// Where a block was shortened, and where it took the place of a longer one, what lies behind it is not zero.
TEST_F(HugeLane, CallocIsZeroBehindAShorterBlock) {
    constexpr std::size_t kLong = 2 * kSuperslab;
    constexpr std::size_t kShort = kSuperslab + 64 * kKiB;
    for (const bool in_place : {true, false}) {
        hak_collect();
        void *block = hak_malloc(kLong);
        std::memset(block, 0xA5, kLong);
        if (in_place) {
            block = hak_realloc(block, kShort);
        } else {
            hak_free(block);
            block = hak_malloc(kShort);
        }
        ASSERT_NE(block, nullptr);
        hak_free(block);
        std::vector<void *> blocks;
        for (std::size_t at = 0; at < 2 * kLong; at += kMiB) {
            blocks.push_back(hak_calloc(1, kMiB));
            EXPECT_TRUE(is_zero(static_cast<char *>(blocks.back()), kMiB)) << in_place << ", " << at;
        }
        for (void *each : blocks) {
            hak_free(each);
        }
    }
}

// A little more than a superslab each, of which the second counts for what was used of it.
TEST_F(HugeLane, WhatABlockNeverHadIsNotPurged) {
    hak_option_set("retain_min", "24M");
    constexpr std::size_t kSize = kSuperslab + 64 * kKiB;
    std::vector<void *> blocks(8);
    for (void *&block : blocks) {
        block = hak_malloc(kSize);
        touch(block, kSize, kPage);
    }
    const std::uint64_t before = hakmem_test::counter("purged_bytes");
    for (void *block : blocks) {
        hak_free(block);
    }
    EXPECT_EQ(hakmem_test::counter("purged_bytes") - before, 0u);
}

// Blocks of about this size are known to be filled.
void vouch_for(std::size_t size) {
    for (int i = 0; i < 8; i++) {
        void *block = hak_malloc(size);
        touch(block, size, kPage);
        hak_free(block);
        hak_collect();
    }
}

std::size_t faults_of_filling(std::size_t size, Block &block) {
    const std::size_t before = faults_so_far();
    block = {static_cast<char *>(hak_malloc(size)), size};
    touch(block.at, size, kPage);
    return faults_so_far() - before;
}

// A block that lies where a longer one was: what is behind it stays for the next one, as far as it may.
class BehindABlock : public HugeLane {
  protected:
    static constexpr std::size_t kLonger = 2 * kSuperslab;
    static constexpr std::size_t kShorter = kSuperslab + 512 * kKiB;

    void *take(std::size_t size) {
        void *block = hak_malloc(size);
        touch(block, size, kPage);
        return block;
    }

    BehindABlock() {
        hak_free(take(kLonger));
        const std::size_t before = faults_so_far();
        shorter_ = take(kShorter);
        EXPECT_LE(faults_so_far() - before, 64U) << "it lies elsewhere";
    }
    ~BehindABlock() override {
        hak_free(shorter_);
    }

    // What is resident under a sanitizer says nothing.
    bool nothing_is_behind() const {
        return HAKMEM_TEST_SANITIZED || meter_.growth() <= static_cast<std::ptrdiff_t>(kShorter + 256 * kKiB);
    }

    const ResidentMeter meter_;
    void *shorter_;
};

TEST_F(BehindABlock, MemoryStaysForTheNextOne) {
    hak_free(shorter_);
    const std::size_t before = faults_so_far();
    shorter_ = take(kLonger);
    EXPECT_LE(faults_so_far() - before, 64U);
}

TEST_F(BehindABlock, MemoryGoesBackOnRequest) {
    hak_collect();
    EXPECT_TRUE(nothing_is_behind()) << meter_.growth();
}

TEST_F(BehindABlock, MemoryGoesBackWhereLessMayStay) {
    hak_option_set("retain_min", "0");
    hak_option_set("retain_percent", "0");
    hak_option_set("retain_grace", "0");
    EXPECT_TRUE(happens([&] {
        hak_free(take(300 * kKiB));
        return nothing_is_behind();
    }));
}

// Of a run of 16 MiB, what an earlier block left resident comes as it is, and the rest on huge pages: most of
// it, a superslab of which a few pages are resident, and one or two beside many that are.
TEST_F(HugeLane, ComesOnHugePagesWhereverItIsNotResident) {
    constexpr std::size_t kSize = 16 * kMiB;
    for (const std::size_t left : {4 * kMiB, 4 * kMiB + 128 * kKiB, 12 * kMiB, 14 * kMiB}) {
        vouch_for(kSize);
        void *earlier = hak_malloc(left);
        touch(earlier, left, kPage);
        hak_free(earlier);
        Block block;
        const std::size_t faults = faults_of_filling(kSize, block);
        if (kernel_has_huge_pages() && !HAKMEM_TEST_SANITIZED) {
            EXPECT_LE(faults, 200u) << "beside " << left / kKiB << " KiB";
        }
        hak_free(block.at);
        hak_collect();
    }
}

// What the program asks of the kernel for its own blocks ends with them.
TEST_F(HugeLane, ABlockOfWhichLittleIsUsedTakesLittleWhereAnotherAskedForHugePages) {
    constexpr std::size_t kTouched = kMiB / 2;
    ASSERT_EQ(hak_option_set("huge_pages", "0"), 0); // none that the library asks for
    for (const std::size_t size : {3 * kSuperslab / 2, kSuperslab - kPage, kSuperslab / 8}) {
        SCOPED_TRACE(size);
        PointerArray blocks(50);
        for (void *&block : blocks) {
            block = hak_malloc(2 * kSuperslab + kPage);
            ASSERT_EQ(madvise(block, 2 * kSuperslab + kPage, MADV_HUGEPAGE), 0);
            touch(block, 2 * kSuperslab, kPage);
        }
        for (std::size_t i = 0; i < blocks.size(); i++) { // half of them in two steps
            if (i % 2 == 0) {
                blocks[i] = hak_realloc(blocks[i], kSuperslab + kPage);
            }
            hak_free(blocks[i]);
        }
        hak_collect();
        const hakmem_test::ResidentMeter meter;
        for (void *&block : blocks) {
            block = hak_malloc(size);
            touch(block, size, kTouched);
        }
        const std::size_t pages = blocks.size() * (size / kTouched + 1);
        meter.expect_growth_within(pages * kPage + 2 * kMiB, "by some pages of each block");
        for (void *block : blocks) {
            hak_free(block);
        }
        hak_collect();
    }
}

TEST_F(HugeLane, TheBoundHoldsWhereProgramsAskForHugePages) {
    hak_collect();
    ASSERT_EQ(hak_option_set("retain_grace", "0"), 0);
    const hakmem_test::ResidentMeter meter;
    PointerArray blocks(16);
    for (void *&block : blocks) {
        block = hak_malloc(3 * kSuperslab);
        ASSERT_EQ(madvise(block, 3 * kSuperslab, MADV_HUGEPAGE), 0);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
    for (void *&block : blocks) {
        block = hak_malloc(kSuperslab + kPage);
        touch(block, kSuperslab + kPage, kPage);
    }
    ASSERT_EQ(hak_option_set("retain_min", "16M"), 0);
    for (void *block : blocks) {
        hak_free(block);
    }
    meter.expect_growth_within(20 * kMiB, "after all was freed");
}

// The shortest hole that it fits into would be too short again, each time.
TEST_F(HugeLane, BlocksThatGrowBeginWhereTheyCanGoOn) {
    constexpr std::size_t kLength = 16 * kMiB;
    void *hole = hak_malloc(12 * kMiB);
    void *behind_it = hak_malloc(kSuperslab + kPage);
    hak_free(hole);
    std::uint64_t moves = 0;
    for (std::size_t round = 0; round < 10; round++) {
        void *block = nullptr;
        for (std::size_t size = 64 * kKiB; size <= kLength; size += 64 * kKiB) {
            block = hak_realloc(block, size);
            ASSERT_NE(block, nullptr);
        }
        hak_free(block);
        moves = round == 0 ? hakmem_test::counter("huge_remaps") : moves;
    }
    EXPECT_EQ(hakmem_test::counter("huge_remaps"), moves) << "after the first block";
    hak_free(behind_it);
}

// The end of a block lies on a huge page only where it nearly fills it.
TEST_F(HugeLane, WastesNextToNothingBehindABlock) {
    for (const std::size_t rest : {kSuperslab / 8, kSuperslab / 2, kSuperslab * 7 / 8}) {
        const std::size_t size = 16 * kMiB + rest;
        vouch_for(size);
        const hakmem_test::ResidentMeter meter;
        PointerArray blocks(6);
        for (void *&block : blocks) {
            block = hak_malloc(size);
            touch(block, size, kPage);
        }
        meter.expect_growth_within(blocks.size() * (size + size / 32) + kMiB, "by filled blocks");
        for (void *block : blocks) {
            hak_free(block);
        }
        hak_collect();
    }
}

// Not each block's end is looked at once many were as they should be; but no program is in step with that.
TEST_F(HugeLane, TheBoundHoldsWhereEachEighthBlockIsOneOfThose) {
    constexpr std::size_t kSize = kSuperslab + 64 * kKiB;
    constexpr std::size_t kAsking = 40;
    ASSERT_EQ(hak_option_set("retain_grace", "0"), 0);
    PointerArray asking(kAsking);
    for (std::size_t phase = 0; phase < 8; phase++) {
        PointerArray others(40 + phase + kAsking * 7);
        for (void *&block : asking) {
            block = hak_malloc(2 * kSuperslab);
            ASSERT_EQ(madvise(block, 2 * kSuperslab, MADV_HUGEPAGE), 0);
        }
        for (void *&block : others) {
            block = hak_malloc(kSize);
        }
        for (void *block : asking) {
            hak_free(block);
        }
        hak_collect();
        const ResidentMeter meter;
        for (void *&block : asking) {
            block = hak_malloc(kSize);
        }
        std::size_t other = 0;
        for (; other < 40 + phase; other++) {
            hak_free(others[other]);
        }
        for (void *block : asking) {
            touch(block, kSize, kPage);
        }
        ASSERT_EQ(hak_option_set("retain_min", "16M"), 0);
        for (void *block : asking) {
            hak_free(block);
            for (const std::size_t end = other + 7; other < end; other++) {
                hak_free(others[other]);
            }
        }
        meter.expect_growth_within(48 * kMiB, "after all was freed");
        ASSERT_EQ(hak_option_set("retain_min", "1G"), 0);
        hak_collect();
    }
}

} // namespace
