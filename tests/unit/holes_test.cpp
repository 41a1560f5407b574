// Pages that hold nothing but free blocks go back, though their slabs are in use.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/equal_blocks.h"
#include "support/no_decay.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"

extern "C" bool holes_purge_idle(unsigned units); // heap/holes.h, which only C can read

namespace {

using hakmem_test::all_bytes_are;
using hakmem_test::counter;
using hakmem_test::dirty;
using hakmem_test::kMiB;
using hakmem_test::kPage;
using hakmem_test::NoDecay;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::scaled;
using hakmem_test::stats_now;

// A sanitizer takes ten times as long for each block.
constexpr std::size_t kHeap = (HAKMEM_TEST_SANITIZED ? 16 : 64) * kMiB;

int mark_of(std::size_t i) {
    return static_cast<int>(i % 255 + 1);
}

bool is_whole(const void *block, std::size_t i, std::size_t size) {
    return all_bytes_are(mark_of(i), block, size);
}

struct Shape {
    std::size_t size;
    std::size_t keep; // one block of so many stays
};

// Many blocks and few by turns, each checked when it is freed.
void breathe(Random &random, std::size_t slots, std::size_t operations) {
    std::vector<void *> blocks(slots);
    std::vector<std::size_t> sizes(slots);
    for (std::size_t n = 0; n < operations; n++) {
        const std::size_t i = random.below(slots);
        if (blocks[i] != nullptr && !is_whole(blocks[i], i, sizes[i])) {
            ADD_FAILURE() << "block " << i << " of " << sizes[i];
            break;
        }
        hak_free(blocks[i]);
        blocks[i] = nullptr;
        const bool fills = n / 20'000 % 2 == 0;
        if (fills || random.one_in(8)) {
            sizes[i] = random.log_uniform(14);
            blocks[i] = hak_malloc(sizes[i]);
            dirty(blocks[i], sizes[i], mark_of(i));
        }
    }
    for (void *block : blocks) {
        hak_free(block);
    }
}

// The pages that the blocks which stay are on.
std::size_t pages_needed(const Shape &shape) {
    const std::size_t of_each = shape.size / kPage * kPage + 2 * kPage;
    return kHeap / shape.size / shape.keep * of_each;
}

class Holes : public testing::TestWithParam<Shape> {
  protected:
    Holes() : blocks_(kHeap / GetParam().size) {
    }
    ~Holes() override {
        for (void *block : blocks_) {
            hak_free(block);
        }
        hak_collect();
    }

    void fill() {
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            if (blocks_[i] == nullptr) {
                blocks_[i] = hak_malloc(GetParam().size);
                ASSERT_NE(blocks_[i], nullptr);
                dirty(blocks_[i], GetParam().size, mark_of(i));
            }
        }
    }

    void thin_out() {
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            if (i % GetParam().keep != 0) {
                hak_free(blocks_[i]);
                blocks_[i] = nullptr;
            }
        }
    }

    void expect_to_go_back_without_a_call(long refused) {
        hak_option_set("decay_ms", "100");
        hak_option_set("background_thread", "2");
        hak_collect();
        const ResidentMeter meter;
        fill();
        os_fault_set(OS_FAULT_PURGE, 0, refused);
        thin_out();
        const std::size_t bound = pages_needed(GetParam()) + 5 * kMiB;
        meter.wait_for_growth_within(bound);
        meter.expect_growth_within(bound, "without a call");
        expect_whole();
        os_fault_set(OS_FAULT_PURGE, 0, 0);
        hak_option_set("background_thread", "1");
        hak_option_set("decay_ms", "500");
    }

    void expect_whole() {
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            if (blocks_[i] != nullptr) {
                ASSERT_TRUE(is_whole(blocks_[i], i, GetParam().size)) << "block " << i;
            }
        }
    }

    PointerArray blocks_;
};

TEST_P(Holes, CollectGivesBackAllPagesThatHoldNothing) {
    hak_collect();
    const ResidentMeter meter;
    const std::uint64_t had = counter("hole_bytes");
    fill();
    thin_out();
    hak_collect();
    meter.expect_growth_within(pages_needed(GetParam()) + 3 * kMiB, "after all but a few blocks were freed");
    EXPECT_GT(counter("hole_bytes") - had, kHeap / 4);
    expect_whole();
}

TEST_P(Holes, AreFilledAgainByNewBlocks) {
    fill();
    for (int round = 0; round < 3; round++) {
        thin_out();
        hak_collect();
        expect_whole();
        const ResidentMeter meter;
        fill();
        expect_whole();
        meter.expect_growth_within(kHeap + kHeap / 8, "by as many blocks as before");
    }
}

TEST_P(Holes, GoBackWithoutACallWhenNothingHappensToThem) {
    expect_to_go_back_without_a_call(0);
}

TEST_P(Holes, GoBackThoughTheOsHasRefusedThemBefore) {
    expect_to_go_back_without_a_call(100);
}

TEST_P(Holes, GoBackWhileBlocksAreFreedWhereMoreIsFreeThanMayStay) {
    hak_collect();
    const NoDecay no_decay;
    const ResidentMeter meter;
    fill();
    thin_out();
    meter.expect_growth_within(pages_needed(GetParam()) + 12 * kMiB, "at once");
    expect_whole();
}

// Most of its blocks go and come again: after a few times, their pages stay.
TEST_P(Holes, StayInAProgramThatBreathes) {
    const NoDecay no_decay;
    std::uint64_t had = 0;
    for (int breath = 0; breath < 10; breath++) {
        fill();
        if (breath == 7) {
            had = counter("hole_bytes");
        }
        thin_out();
    }
    EXPECT_LE(counter("hole_bytes") - had, 3 * kHeap / 8);
    expect_whole();
}

// Small blocks of which a page has many, and those that are pages or lie across them.
INSTANTIATE_TEST_SUITE_P(Shapes, Holes,
                         testing::Values(Shape{16, 2000}, Shape{200, 200}, Shape{1000, 50}, Shape{4096, 8},
                                         Shape{5000, 16}, Shape{20000, 8}, Shape{40000, 4}),
                         [](const auto &info) { return std::to_string(info.param.size) + "B"; });

// A program that has locked its memory pays for a few attempts, not for one with each look.
TEST(HolesOnce, WhereTheOsTakesNothingItIsNotAskedAgainAndAgain) {
    const auto thin_out_refused = [] {
        constexpr std::size_t kSize = 1000;
        const NoDecay no_decay;
        PointerArray blocks(kHeap / kSize);
        for (void *&block : blocks) {
            block = hak_malloc(kSize);
        }
        const std::uint64_t had = stats_now().fallbacks;
        os_fault_set(OS_FAULT_PURGE, 0, -1);
        for (std::size_t i = 0; i < blocks.size(); i++) {
            if (i % 50 != 0) {
                hak_free(blocks[i]);
            }
        }
        EXPECT_LE(stats_now().fallbacks - had, 100u);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    };
    // A process of its own: for ten seconds, nothing that comes after it would be given back.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(thin_out_refused(), testing::ExitedWithCode(0), "");
}

// What is purged once and wanted again stays from then on, where it is less than what is held, and the
// library's thread takes it back when the program sleeps.
TEST(Holes, OfTheHalfThatComesAndGoesArePurgedOnce) {
    constexpr std::size_t kSize = 1000;
    constexpr std::size_t kTogether = 16;
    const NoDecay no_decay; // no period passes
    hak_option_set("background_thread", "2");
    hak_collect();
    PointerArray blocks(kHeap / kSize);
    const std::uint64_t had = counter("hole_bytes");
    for (int breath = 0; breath < 8; breath++) {
        for (void *&block : blocks) {
            block = block == nullptr ? std::memset(hak_malloc(kSize), 1, kSize) : block;
        }
        for (std::size_t i = 0; i < blocks.size(); i++) {
            if (i % (2 * kTogether) < kTogether) {
                hak_free(blocks[i]);
                blocks[i] = nullptr;
            }
        }
    }
    EXPECT_LE(counter("hole_bytes") - had, 5 * kHeap / 8);
    for (void *block : blocks) {
        hak_free(block);
    }
}

// Sparse slabs, by what idle looks purge of them.
class IdleHoles : public testing::Test {
  protected:
    IdleHoles() : blocks_(4 * kMiB / kSize) {
        hak_option_set("retain_min", "1G"); // nothing goes for being too much
        hak_collect();
    }
    ~IdleHoles() override {
        hakmem_test::free_all(blocks_);
        hak_option_set("retain_min", "2816K");
    }

    void fill_and_thin_out() {
        for (void *&block : blocks_) {
            block = block == nullptr ? std::memset(hak_malloc(kSize), 1, kSize) : block;
        }
        for (std::size_t i = 0; i < blocks_.size(); i++) {
            if (i % 50 != 0) {
                hak_free(blocks_[i]);
                blocks_[i] = nullptr;
            }
        }
        hak_tiny_magazine_flush_all();
    }

    static bool a_look_purges() {
        const std::uint64_t had = counter("hole_bytes");
        holes_purge_idle(UINT32_MAX);
        return counter("hole_bytes") > had;
    }

  private:
    static constexpr std::size_t kSize = 1000;
    const NoDecay no_decay_;
    PointerArray blocks_;
};

TEST_F(IdleHoles, AreThoseOfSlabsToWhichNothingCameBackForAWholePeriod) {
    fill_and_thin_out();
    EXPECT_FALSE(a_look_purges());
    EXPECT_TRUE(a_look_purges());
    EXPECT_FALSE(a_look_purges()) << "nothing is left";
}

TEST_F(IdleHoles, AreLeftForLongerWhereTheyAreWantedAgain) {
    fill_and_thin_out();
    EXPECT_FALSE(a_look_purges());
    EXPECT_TRUE(a_look_purges());
    fill_and_thin_out();
    EXPECT_FALSE(a_look_purges());
    EXPECT_FALSE(a_look_purges()) << "left out";
    EXPECT_TRUE(a_look_purges());
}

// What the OS does not take is left where it is, and all else goes.
TEST(Holes, AFewLockedPagesKeepOnlyThemselves) {
    constexpr std::size_t kSize = 1000;
    hak_collect();
    const ResidentMeter meter;
    PointerArray blocks(kHeap / kSize);
    for (std::size_t i = 0; i < blocks.size(); i++) {
        blocks[i] = hak_malloc(kSize);
        std::memset(blocks[i], mark_of(i), kSize);
    }
    std::vector<void *> locked;
    for (std::size_t i = 5000; i < blocks.size(); i += 5000) {
        locked.push_back(blocks[i]);
        ASSERT_EQ(mlock(blocks[i], kSize), 0);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        if (i % 100 != 0 || i % 5000 == 0) {
            hak_free(blocks[i]);
            blocks[i] = nullptr;
        }
    }
    hak_collect();
    meter.expect_growth_within(blocks.size() / 100 * 2 * kPage + 8 * kMiB, "with a few pages locked");
    for (void *page : locked) {
        munlock(page, kSize);
    }
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
}

// In a run of five slabs a bit says of three pages that they have gone, and the last one of two.
TEST(Holes, AtTheEndOfARunGoOnce) {
    constexpr std::size_t kSize = 13 * kPage;
    constexpr std::size_t kOthersOfABit = 2;
    const NoDecay no_decay;
    hak_collect();
    std::vector<void *> blocks = hakmem_test::make_equal_blocks(600, kSize);
    std::sort(blocks.begin(), blocks.end());
    std::vector<void *> first;
    std::vector<void *> third;
    std::size_t in_run = 0;
    for (void *block : blocks) {
        std::memset(block, 1, kSize);
        in_run = reinterpret_cast<std::uintptr_t>(block) % 65536 == 0 ? 0 : in_run + 1;
        if (in_run == 0 || in_run == 2) {
            (in_run == 0 ? first : third).push_back(block);
        } else {
            hak_free(block);
        }
    }
    hak_collect();
    const std::uint64_t had = counter("hole_bytes");
    hakmem_test::free_blocks(first);
    hak_collect();
    EXPECT_LE(counter("hole_bytes") - had, first.size() * (kSize + 2 * kOthersOfABit * kPage));
    hakmem_test::free_blocks(third);
}

void breathe_in_threads() {
    hakmem_test::run_threads(4, [](std::size_t t) {
        Random random(t + 1);
        breathe(random, 4000, scaled(200'000));
    });
}

TEST(Holes, NothingIsLostWhileThreadsUseWhatOthersGiveBack) {
    std::atomic<bool> over{false};
    std::thread collector([&over] {
        while (!over) {
            hak_collect();
        }
    });
    breathe_in_threads();
    over = true;
    collector.join();
}

TEST(Holes, NothingIsLostWhileThreadsGiveThemBackAsTheyFree) {
    hak_option_set("retain_min", "0");
    hak_option_set("retain_percent", "0");
    const std::uint64_t had = counter("hole_bytes");
    breathe_in_threads();
    EXPECT_GT(counter("hole_bytes"), had);
    hak_option_set("retain_percent", "12");
    hak_option_set("retain_min", "2816K");
}

// Two heaps of which one block in 64 stays, freed by many threads at once: each gives back its part.
TEST(Holes, ManyThreadsAtOnceStayWithinTheBound) {
    constexpr std::size_t kThreads = 8;
    constexpr std::size_t kSize = 1000;
    constexpr std::size_t kOfEach = 2 * kHeap / kThreads / kSize;
    const NoDecay no_decay;
    hak_collect();
    const ResidentMeter meter;
    PointerArray blocks(kThreads * kOfEach);
    std::atomic<std::size_t> filled{0};
    hakmem_test::run_threads(kThreads, [&](std::size_t t) {
        void **mine = blocks.begin() + t * kOfEach;
        for (std::size_t i = 0; i < kOfEach; i++) {
            mine[i] = hak_malloc(kSize);
            std::memset(mine[i], mark_of(i), kSize);
        }
        filled++;
        while (filled < kThreads) {
            std::this_thread::yield();
        }
        for (std::size_t i = 0; i < kOfEach; i++) {
            if (i % 64 != 0) {
                hak_free(mine[i]);
                mine[i] = nullptr;
            }
        }
    });
    meter.expect_growth_within(kThreads * kOfEach / 64 * 2 * kPage + 2 * kHeap / 5, "after 8 threads freed");
    for (void *block : blocks) {
        hak_free(block);
    }
    hak_collect();
}

} // namespace
