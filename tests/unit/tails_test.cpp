// Behind a large block its last slab serves nobody else, and behind a huge one its last superslab: what of
// that is resident is bounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/shortened.h"
#include "support/statistics.h"

namespace {

using hakmem_test::dirty;
using hakmem_test::free_all;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::make_shortened;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::scaled;
using hakmem_test::stats_now;

class Tails : public testing::TestWithParam<std::size_t> {};

TEST_P(Tails, GrowthTakesLittleMoreThanTheBlocks) {
    constexpr std::size_t kHeap = 160 * kMiB;
    hak_collect();
    const ResidentMeter meter;
    PointerArray blocks(kHeap / GetParam());
    for (void *&block : blocks) {
        block = hak_malloc(GetParam());
        ASSERT_NE(block, nullptr);
        dirty(block, GetParam(), 1);
    }
    meter.expect_growth_within(kHeap + kHeap / 5 + 2 * kMiB, "by blocks that are all filled");
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
}

INSTANTIATE_TEST_SUITE_P(Sizes, Tails, testing::Values(66'000, 70'000, 100'000, 140'000, 200'000, 270'000),
                         testing::PrintToStringParamName());

// Each block of `blocks`, of a size between these, holds what tells it from all others throughout.
class Churn {
  public:
    Churn(std::size_t blocks, std::size_t least, std::size_t most, std::uint64_t seed)
        : random_(seed), sizes_(blocks), blocks_(blocks), least_(least), most_(most) {
    }
    ~Churn() {
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            check(i, sizes_[i]);
            hak_free(blocks_[i]);
        }
    }
    Churn(const Churn &) = delete;
    Churn &operator=(const Churn &) = delete;

    void run(std::size_t times, bool resizes) {
        for (std::size_t n = 0; n < times; n++) {
            const std::size_t i = random_.below(blocks_.size());
            const std::size_t size = least_ + random_.below(most_ - least_ + 1);
            check(i, sizes_[i]);
            if (resizes && random_.below(2) == 0) {
                blocks_[i] = hak_realloc(blocks_[i], size);
                check(i, std::min(size, sizes_[i]));
            } else {
                hak_free(blocks_[i]);
                blocks_[i] = hak_malloc(size);
            }
            ASSERT_NE(blocks_[i], nullptr);
            live_ += size - sizes_[i];
            sizes_[i] = size;
            dirty(blocks_[i], size, mark(i));
        }
    }

    std::size_t live() const {
        return live_;
    }

  private:
    static unsigned char mark(std::size_t i) {
        return static_cast<unsigned char>(i % 255 + 1);
    }

    // Its first `size` bytes.
    void check(std::size_t i, std::size_t size) {
        const auto *bytes = static_cast<unsigned char *>(blocks_[i]);
        for (std::size_t at = 0; at < size; at += 1021) {
            ASSERT_EQ(bytes[at], mark(i)) << "block " << i << " of " << sizes_[i] << " bytes at " << at;
        }
        if (size > 0) {
            ASSERT_EQ(bytes[size - 1], mark(i))
                << "block " << i << " of " << sizes_[i] << " bytes at its end";
        }
    }

    Random random_;
    std::vector<std::size_t> sizes_;
    std::vector<void *> blocks_;
    std::size_t least_, most_, live_ = 0;
};

TEST(Tails, OfBlocksThatComeAndGoAreBounded) {
    const std::size_t kSizes[][2] = {{66'000, 70'000}, {70'000, 70'000}, {131'080, 140'000}};
    for (const auto &sizes : kSizes) {
        hak_collect();
        const ResidentMeter meter;
        Churn churn(400, sizes[0], sizes[1], 1);
        churn.run(8000, false);
        const std::string when = "by blocks of " + std::to_string(sizes[0]) + " bytes and more";
        meter.expect_growth_within(churn.live() + churn.live() / 4 + 3 * kMiB, when.c_str());
    }
}

TEST(Tails, ContentsStayWhateverIsGivenBackBehindThem) {
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 3; seed++) {
        threads.emplace_back([seed] {
            Churn churn(100, 40'000, 220'000, seed);
            churn.run(3000, true);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST(Tails, WhatABlockGrowsIntoCanBeUsed) {
    Churn others(200, 66'000, 70'000, 3);
    others.run(2000, false);
    for (std::size_t size = 66'000; size < 128 * kKiB; size += 5000) {
        auto *block = static_cast<unsigned char *>(hak_malloc(66'000));
        ASSERT_NE(block, nullptr);
        std::memset(block, 7, 66'000);
        block = static_cast<unsigned char *>(hak_realloc(block, size));
        ASSERT_NE(block, nullptr);
        std::memset(block + 66'000, 8, size - 66'000);
        EXPECT_TRUE(std::all_of(block, block + 66'000, [](unsigned char c) { return c == 7; })) << size;
        auto *zero = static_cast<unsigned char *>(hak_calloc(1, size));
        EXPECT_TRUE(std::all_of(zero, zero + size, [](unsigned char c) { return c == 0; })) << size;
        hak_free(zero);
        hak_free(block);
    }
}

void fill(void *block, std::size_t size) {
    ASSERT_NE(block, nullptr);
    dirty(block, size, 1);
}

void free_and_collect(PointerArray &blocks) {
    free_all(blocks);
    hak_collect();
}

// Fills each place with a block of `had` bytes, and shortens these to `bytes` once all are there.
void make_all_and_shorten(PointerArray &blocks, std::size_t had, std::size_t bytes) {
    for (void *&block : blocks) {
        block = hak_malloc(had);
        fill(block, had);
    }
    for (void *&block : blocks) {
        block = hak_realloc(block, bytes);
    }
}

// Such programs would be taken for ones that breathe.
void allow_no_grace() {
    ASSERT_EQ(hak_option_set("retain_grace", "0"), 0);
}

class ShortenedTails : public testing::TestWithParam<std::size_t> {};

TEST_P(ShortenedTails, OfHugeBlocksAreBounded) {
    constexpr std::size_t kLong = 4'000'000;
    allow_no_grace();
    const ResidentMeter meter;
    PointerArray blocks(60);
    make_all_and_shorten(blocks, kLong, GetParam());
    const std::size_t live = blocks.size() * GetParam();
    meter.expect_growth_within(live + live / 4 + 4 * kMiB, "by blocks that were shortened");
    free_and_collect(blocks);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShortenedTails, testing::Values(1'200'000, 1'900'000, 2'200'000),
                         testing::PrintToStringParamName());

// What tells of a block is what was not resident when it was taken, here all from its second superslab on.
TEST(Tails, OfHugeBlocksMayLeaveLittleThatTellsOfThem) {
    for (std::size_t left = 4 * kKiB; left < 256 * kKiB; left += 20 * kKiB) {
        hak_collect();
        void *before = hak_malloc(2 * kMiB);
        fill(before, 2 * kMiB);
        hak_free(before);
        void *block = hak_malloc(4 * kMiB);
        fill(block, 4 * kMiB);
        block = hak_realloc(block, 2 * kMiB + left);
        fill(block, 2 * kMiB + left);
        hak_free(block);
    }
}

constexpr std::size_t kTwoSlabs = 128 * kKiB;
constexpr std::size_t kHalfOfThem = 66'000; // with nearly as much behind it

TEST(Tails, GoWhenTheBoundFallsThatTheyWereWithin) {
    constexpr std::size_t kBesideBlock = 1'900'000;
    allow_no_grace();
    const ResidentMeter meter;
    PointerArray beside(600 * kMiB / kBesideBlock), blocks(1500);
    for (void *&block : beside) {
        block = hak_malloc(kBesideBlock);
        fill(block, kBesideBlock);
    }
    make_shortened(blocks, kTwoSlabs, kHalfOfThem);
    for (void *block : beside) {
        hak_free(block);
    }
    // Twice 12 % of the runs, tails included, and a third of that, and what may be free elsewhere.
    const std::size_t live = blocks.size() * kHalfOfThem;
    const std::size_t runs = blocks.size() * kTwoSlabs;
    meter.expect_growth_within(live + runs * 32 / 100 + runs / 8 + 6 * kMiB, "after larger blocks have gone");
    hak_collect();
    meter.expect_growth_within(live + live / 20 + 4 * kMiB, "after everything was given back");
    free_and_collect(blocks);
}

// Where the kernel gives huge pages to blocks that are all filled, these hold the tails as well.
TEST(Tails, OfBlocksOnHugePagesAreBounded) {
    constexpr std::size_t kPagesOfIt = 69'632;
    allow_no_grace();
    const ResidentMeter meter;
    PointerArray blocks(1000);
    make_all_and_shorten(blocks, kTwoSlabs, kHalfOfThem);
    const std::size_t runs = blocks.size() * kTwoSlabs;
    meter.expect_growth_within(blocks.size() * kPagesOfIt + runs * 32 / 100 + 4 * kMiB,
                               "by blocks that were shortened");
    free_and_collect(blocks);
}

// Each takes the slabs of the one before, with what is behind that.
TEST(Tails, OfBlocksWhereLongerOnesHaveJustBeenAreBounded) {
    allow_no_grace();
    const ResidentMeter meter;
    PointerArray blocks(1500);
    for (void *&block : blocks) {
        for (const std::size_t longer : {120'000u, 100'000u}) {
            void *before = hak_malloc(longer);
            fill(before, longer);
            hak_free(before);
        }
        block = hak_malloc(kHalfOfThem);
    }
    // Blocks are whole pages, and tails twice 12 % of the runs.
    meter.expect_growth_within(blocks.size() * (17 * 4 * kKiB + kTwoSlabs * 25 / 100) + 4 * kMiB,
                               "by blocks where longer ones were");
    free_and_collect(blocks);
}

TEST(Tails, OfAnyLengthAreBoundedWhereLittleMayStay) {
    constexpr std::size_t kLong = kMiB;
    constexpr std::size_t kShort = 987'136; // an eighth of a slab less than all of the last one
    allow_no_grace();
    ASSERT_EQ(hak_option_set("retain_percent", "0"), 0);
    const ResidentMeter meter;
    PointerArray blocks(300);
    make_shortened(blocks, kLong, kShort);
    meter.expect_growth_within(blocks.size() * kShort + 10 * kMiB, "by blocks that were shortened");
    ASSERT_EQ(hak_option_set("retain_percent", "12"), 0);
    free_and_collect(blocks);
}

// There is always memory of longer blocks, free and resident, for the next ones to lie in.
TEST(Tails, OfHugeBlocksWhereLongerOnesWereAreBounded) {
    constexpr std::size_t kLong = 4'000'000;
    constexpr std::size_t kShort = 2'200'000;
    constexpr std::size_t kBeside = 200 * kMiB;
    allow_no_grace();
    const ResidentMeter meter;
    PointerArray beside(kBeside / kMiB), blocks(80);
    for (void *&block : beside) {
        block = hak_malloc(kMiB);
        fill(block, kMiB);
    }
    for (std::size_t i = 0; i < blocks.size(); i += 5) {
        PointerArray longer(5);
        for (void *&block : longer) {
            block = hak_malloc(kLong);
            fill(block, kLong);
        }
        for (void *block : longer) {
            hak_free(block);
        }
        for (std::size_t k = i; k < i + 5; k++) {
            blocks[k] = hak_malloc(kShort);
            fill(blocks[k], kShort);
        }
    }
    const std::size_t live = kBeside + blocks.size() * kShort;
    meter.expect_growth_within(live + live / 4, "by blocks where longer ones were");
    hak_collect();
    meter.expect_growth_within(live + live / 20, "by the same after everything was given back");
    free_and_collect(beside);
    free_and_collect(blocks);
}

TEST(Tails, OfHugeBlocksThatCouldNotGrowAreGivenBack) {
    constexpr std::size_t kLong = 4'000'000;
    constexpr std::size_t kShort = 2'200'000;
    const ResidentMeter meter;
    PointerArray blocks(40);
    for (void *&block : blocks) {
        block = hak_malloc(kLong);
        fill(block, kLong);
        block = hak_realloc(block, kShort);
        ASSERT_EQ(hak_realloc(block, std::size_t{1} << 52), nullptr);
    }
    hak_collect();
    const std::size_t live = blocks.size() * kShort;
    meter.expect_growth_within(live + live / 20 + kMiB, "by blocks that could not grow");
    free_and_collect(blocks);
}

// Threads whose blocks come, go, grow and shrink between these sizes, while another gives back all that it
// can.
void churn_while_collecting(std::size_t blocks, std::size_t least, std::size_t most, std::size_t times) {
    std::atomic<bool> done{false};
    std::thread collector([&done] {
        while (!done.load()) {
            hak_collect();
        }
    });
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 2; seed++) {
        threads.emplace_back([=] {
            Churn churn(blocks, least, most, seed);
            churn.run(times, true);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    done = true;
    collector.join();
}

TEST(Tails, OfHugeBlocksAreGivenBackWhileTheseGrowAndShrink) {
    churn_while_collecting(6, 1'100'000, 7'000'000, scaled(300));
}

TEST(Tails, AreGivenBackWhileTheirBlocksGrowAndShrink) {
    churn_while_collecting(40, 66'000, 190'000, scaled(4000));
}

TEST(Tails, WhoWaitsForOneKeepsNobodyFromGivingMemoryBack) {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&done] {
            void *block = hak_malloc(66'000);
            for (std::size_t size = 120'000; !done.load() && block != nullptr; size = 186'000 - size) {
                block = hak_realloc(block, size);
                fill(block, size);
            }
            hak_free(block);
        });
    }
    for (std::size_t round = 0; round < scaled(30); round++) {
        PointerArray blocks(scaled(100));
        for (void *&block : blocks) {
            block = hak_malloc(kMiB);
            fill(block, kMiB);
        }
        free_and_collect(blocks);
        const hak_stats_t stats = stats_now();
        EXPECT_LE(stats.retained_bytes, kMiB) << "in round " << round;
    }
    done = true;
    for (std::thread &thread : threads) {
        thread.join();
    }
}

} // namespace
