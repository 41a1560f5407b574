// Stocks: blocks that a thread drops by the thousand serve what it builds next, without being lost, kept
// beyond the bound, or handed out twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/busy_thread.h"
#include "support/collector.h"
#include "support/equal_blocks.h"
#include "support/population.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace {

using hakmem_test::BusyThread;
using hakmem_test::Collector;
using hakmem_test::counter;
using hakmem_test::free_blocks;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::make_equal_blocks;
using hakmem_test::Population;
#if !HAKMEM_TEST_SANITIZED
using hakmem_test::PointerArray;
#endif
using hakmem_test::Random;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::shuffle;
using hakmem_test::stats_now;

// More than any magazine holds, and less than may be free.
constexpr std::size_t kDropped = 10'000;

// What the calling thread drops stays with it in a stock.
void build_and_drop(std::uint64_t seed) {
    Population population(seed, kDropped);
    population.build();
    population.drop(1, 1);
}

TEST(Stock, ServesWhatIsBuiltNext) {
    const std::uint64_t before = counter("refills_stock");
    Population population(1, kDropped);
    population.build();
    population.drop(1, 1);
    EXPECT_GT(stats_now().cached_bytes, kMiB);
    population.build();
    EXPECT_GT(counter("refills_stock"), before);
}

// Of any size that has a stock.
class StockOfEqual : public testing::TestWithParam<std::size_t> {
  protected:
    // More than magazines hold, and less than may be free.
    static std::vector<void *> build() {
        return make_equal_blocks(2 * kMiB / GetParam(), GetParam());
    }
};

TEST_P(StockOfEqual, ServesWhatIsBuiltNext) {
    free_blocks(build());
    const std::uint64_t before = counter("refills_stock");
    std::vector<void *> again = build();
    EXPECT_GT(counter("refills_stock"), before);
    std::sort(again.begin(), again.end());
    EXPECT_EQ(std::adjacent_find(again.begin(), again.end()), again.end()) << "a block twice";
    free_blocks(again);
}

TEST_P(StockOfEqual, GoesBackOnRequest) {
    const std::uint64_t before = counter("flushes_stocked");
    free_blocks(build());
    EXPECT_GT(counter("flushes_stocked"), before);
    hak_tiny_magazine_flush_all();
    EXPECT_EQ(stats_now().cached_bytes, 0u);
}

TEST_P(StockOfEqual, GoesBackWhenItsThreadNeedsItNoMore) {
    const BusyThread busy([] { free_blocks(build()); });
    EXPECT_TRUE(happens([] { return counter("stock_returned_blocks") > 0; }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, StockOfEqual, testing::Values(48, 1040, 2100, 8 * kKiB, 31000));

TEST(Stock, LosesAndRepeatsNothing) {
    run_threads(3, [](std::size_t thread) {
        Population population(10 + thread, scaled(100'000));
        Random random(20 + thread);
        for (int round = 0; round < 12; round++) {
            population.build();
            population.drop(1 + random.below(4), 4);
        }
        EXPECT_TRUE(population.intact());
    });
}

TEST(Stock, LosesNothingWhileOthersReturnIt) {
    ASSERT_EQ(hak_option_set("decay_ms", "20"), 0);
    {
        const Collector other;
        run_threads(2, [](std::size_t thread) {
            Population population(30 + thread, scaled(100'000));
            Random random(40 + thread);
            for (int round = 0; round < 20; round++) {
                population.build();
                population.drop(1 + random.below(4), 4);
                std::this_thread::sleep_for(std::chrono::milliseconds(random.below(40)));
            }
            EXPECT_TRUE(population.intact());
        });
    }
    EXPECT_EQ(hak_option_set("decay_ms", "1000"), 0);
}

TEST(Stock, GoesBackOnRequest) {
    Population population(50, kDropped);
    population.build();
    population.drop(1, 1);
    EXPECT_GT(hak_tiny_magazine_flush_all(), kDropped / 2);
    EXPECT_EQ(stats_now().cached_bytes, 0u);
}

TEST(Stock, GoesBackWhenItsThreadNeedsItNoMore) {
    const BusyThread busy([] { build_and_drop(60); });
    EXPECT_TRUE(happens([] { return counter("stock_returned_blocks") > kDropped / 3; }))
        << counter("stock_returned_blocks");
}

TEST(Stock, GoesBackWhenItsThreadUsesOtherSizes) {
    run_in_thread([] {
        Population population(70, kDropped);
        population.build();
        population.drop(1, 1);
        EXPECT_TRUE(happens([] {
            std::vector<void *> blocks(3000);
            for (void *&block : blocks) {
                block = hak_malloc(1500);
            }
            for (void *block : blocks) {
                hak_free(block);
            }
            return counter("stock_returned_blocks") > kDropped / 3;
        }));
    });
}

TEST(Stock, OfAThreadThatIsAwakeGoesBackOnRequestOfAnother) {
    const BusyThread busy([] { build_and_drop(61); });
    hak_collect();
    EXPECT_GT(counter("stock_returned_blocks"), kDropped / 3);
}

TEST(Stock, InUseIsLeftAlone) {
    constexpr std::size_t kRounds = 50;
    for (std::size_t round = 0; round < kRounds; round++) {
        free_blocks(make_equal_blocks(20'000, 64));
    }
    EXPECT_GT(counter("flushes_stocked"), kRounds);
    EXPECT_LE(counter("stock_returned_blocks"), kRounds * 20'000 / 20);
}

// The most that is cached while so many blocks of 48 bytes are dropped in no order.
std::uint64_t most_cached_while_dropping(std::size_t count) {
    hak_collect();
    std::uint64_t most = 0;
    std::vector<void *> blocks(count);
    for (void *&block : blocks) {
        block = hak_malloc(48);
    }
    Random random(80);
    shuffle(blocks, random);
    for (std::size_t i = 0; i < blocks.size(); i++) {
        hak_free(blocks[i]);
        if (i % 10'000 == 0) {
            most = std::max<std::uint64_t>(most, stats_now().cached_bytes);
        }
    }
    return most;
}

TEST(Stock, IsWithinTheBoundWhateverIsDropped) {
    const std::size_t count = scaled(2'000'000);
    // One and a half times retain_min or retain_percent of what is in use, and the magazines.
    EXPECT_LE(most_cached_while_dropping(count),
              std::max<std::size_t>(4 * kMiB + 128 * kKiB, count * 48 / 8) + 512 * kKiB);
    hak_collect();
    EXPECT_LE(stats_now().cached_bytes, 64 * kKiB);
}

// Or the program's own loads would wait for memory that comes in the order in which it was dropped.
TEST(Stock, IsNoLargerThanCachesHoweverMuchMayBeFree) {
    ASSERT_EQ(hak_option_set("retain_min", "64M"), 0);
    EXPECT_LE(most_cached_while_dropping(scaled(2'000'000)), 4 * kMiB);
}

// A list that is dropped from its start is built anew from the stock.
TEST(Stock, OfAListServesTheNext) {
    constexpr std::size_t kNodes = 60'000;
    for (int round = 0; round < 3; round++) {
        free_blocks(make_equal_blocks(kNodes, 32));
    }
    EXPECT_LT(counter("stock_returned_blocks"), kNodes / 10);
}

#if !HAKMEM_TEST_SANITIZED
// What may be kept is a part of what is in use; when that shrinks, nobody puts anything into a stock.
TEST(Stock, GoesBackWhenTheRestOfTheProgramGoes) {
    PointerArray large(300);
    PointerArray small(300'000);
    const hakmem_test::ResidentMeter meter;
    for (void *&block : large) {
        block = hak_malloc(512 * kKiB);
        std::memset(block, 1, 512 * kKiB);
    }
    for (void *&block : small) {
        block = hak_malloc(64);
        *static_cast<char *>(block) = 1;
    }
    for (std::size_t i = 0; i < 100'000; i++) { // the program wants blocks, too
        hak_free(small[i]);
        small[i] = hak_malloc(64);
    }
    for (void *block : small) {
        hak_free(block);
    }
    for (void *block : large) {
        hak_free(block);
    }
    meter.expect_growth_within(4'000'000, "after the last free");
}
#endif

// Each of the last blocks may be all that holds a page, although together they are less than may be free.
TEST(Stock, IsNotMadeWhereFewBlocksHoldManyPages) {
    constexpr std::size_t kSize = 64;
    constexpr std::size_t kGap = 4096 / kSize;
    std::vector<void *> blocks(300'000); // far more than may be free
    std::vector<void *> last;
    for (void *&block : blocks) {
        block = hak_malloc(kSize);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % kGap == 0) {
            last.push_back(blocks[i]);
        } else {
            hak_free(blocks[i]);
        }
    }
    Random random(90);
    shuffle(last, random);
    const std::uint64_t before = counter("flushes_stocked");
    run_in_thread([] { free_blocks(make_equal_blocks(kDropped, 208)); }); // whose stocks were never too large
    EXPECT_EQ(counter("flushes_stocked"), before);
    for (void *block : last) {
        hak_free(block);
    }
    EXPECT_EQ(counter("flushes_stocked"), before);
}

// As much is in use as lets far more stay free, so that nothing else gives it back.
TEST(Stock, OfAProgramThatDropsMoreThanItMayTakeGoesBack) {
    constexpr std::size_t kCount = 100'000;
    ASSERT_EQ(hak_option_set("background_thread", "0"), 0);
    void *in_use = hak_malloc(256 * kMiB);
    ASSERT_NE(in_use, nullptr);
    const std::vector<void *> blocks = make_equal_blocks(kCount, 64);
    const std::uint64_t before = counter("stock_returned_blocks");
    free_blocks(blocks);
    EXPECT_GT(counter("flushes_stocked"), 0u);
    EXPECT_GT(counter("stock_returned_blocks") - before, kCount / 3);
    hak_free(in_use);
    EXPECT_EQ(hak_option_set("background_thread", "1"), 0);
}

TEST(Stock, DoesWithoutMemoryOfItsOwn) {
    Population population(100, kDropped);
    population.build();
    hak_collect();
    os_fault_set(OS_FAULT_RESERVE, 0, -1);
    os_fault_set(OS_FAULT_COMMIT, 0, -1);
    std::vector<void *> others;
    while (void *block = hak_malloc(64 << 10)) {
        others.push_back(block);
    }
    errno = 0;
    population.drop(1, 1);
    EXPECT_EQ(errno, 0) << "free keeps it";
    os_fault_set(OS_FAULT_RESERVE, 0, 0);
    os_fault_set(OS_FAULT_COMMIT, 0, 0);
    free_blocks(others);
    population.build();
    population.drop(1, 1);
    EXPECT_TRUE(population.intact());
}

TEST(StockDeathTest, ADoubleFreeIsFoundWhenItGoesBack) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const std::size_t size : {64U, 4096U}) {
        const auto misuse = [size] {
            const std::vector<void *> blocks = make_equal_blocks(kMiB / size, size);
            free_blocks(blocks);
            hak_free(blocks[blocks.size() / 2]);
            hak_tiny_magazine_flush_all();
        };
        EXPECT_DEATH(misuse(),
                     "hakmem: double free: pointer 0x[0-9a-f]+, size class " + std::to_string(size) + " B");
    }
}

TEST(StockDeathTest, AnInvalidFreeIsFoundBeforeOrWhenItGoesBack) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const std::size_t offset : {3U, 8U, 32U}) {
        const auto misuse = [offset] {
            std::vector<void *> blocks = make_equal_blocks(kDropped, 64);
            blocks[kDropped / 2] = static_cast<char *>(blocks[kDropped / 2]) + offset;
            free_blocks(blocks);
            hak_tiny_magazine_flush_all();
        };
        EXPECT_DEATH(misuse(), "hakmem: invalid free[^:]*: pointer 0x[0-9a-f]+, size class 64 B") << offset;
    }
}

} // namespace
