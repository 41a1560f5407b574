// Without the allocator's thread, the program's own frees give back what lies idle, and what may stay falls
// with what is in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "hakmem.h"
#include "support/decay.h"
#include "support/lanes.h"
#include "support/pattern.h"

namespace {

using hakmem_test::allocate_all;
using hakmem_test::Decay;
using hakmem_test::free_all;
using hakmem_test::kKiB;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::purged_bytes;
using hakmem_test::retained;
using hakmem_test::set_option;
using hakmem_test::touched_block;

using std::chrono::milliseconds;

// A program goes on for some time in which it takes nothing again: nothing counts any more of what came back
// before it might keep enough. Whatever time that takes, each round is one period.
void forget_the_first_breaths() {
    PointerArray few(12);
    for (int period = 0; period < 40; period++) {
        allocate_all(few, 300'000);
        std::this_thread::sleep_for(milliseconds(11));
        set_option("decay_ms", "20");
        free_all(few);
        set_option("decay_ms", "60000");
    }
}

// A program that took a quarter of its memory again and again, and has now an eighth of it in use, would take
// no more than an eighth of that quarter again.
TEST_F(Decay, WithoutABackgroundThreadTheGraceFallsWithWhatIsInUse) {
    constexpr std::size_t kBlock = 256 * kKiB;
    constexpr std::size_t kInUse = 256 * kMiB;
    constexpr std::size_t kMayBreathe = 8 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    // As much as is breathed: more is learned where there are no huge pages.
    set_option("retain_grace", "64M");
    PointerArray blocks(kInUse / kBlock);
    allocate_all(blocks, kBlock);
    const std::size_t quarter = blocks.size() / 4;
    for (int i = 0; i < 20; i++) {
        for (std::size_t b = 0; b < quarter; b++) {
            hak_free(blocks[b]);
        }
        for (std::size_t b = 0; b < quarter; b++) {
            blocks[b] = touched_block(kBlock);
        }
    }
    forget_the_first_breaths();
    const std::uint64_t purged = purged_bytes();
    for (std::size_t b = 0; b < quarter; b++) {
        hak_free(blocks[b]);
        blocks[b] = nullptr;
    }
    EXPECT_LE(purged_bytes() - purged, 8 * kMiB) << "of what is taken again";
    EXPECT_GE(retained(), kInUse / 4 - 8 * kMiB);
    for (std::size_t b = quarter; b < blocks.size() * 7 / 8; b++) {
        hak_free(blocks[b]);
        blocks[b] = nullptr;
    }
    EXPECT_LE(retained(), kInUse / 8 * 12 / 100 + std::max(kMayBreathe, kInUse / 4 / 8) + kMiB);
    free_all(blocks);
    EXPECT_LE(retained(), kMayBreathe + 3 * kMiB);
    set_option("retain_grace", "128M");
    set_option("background_thread", "2");
}

// What the grace has fallen by stays so when a new period begins.
TEST_F(Decay, WithoutABackgroundThreadTheGraceThatHasFallenDoesNotComeBack) {
    constexpr std::size_t kBlock = 256 * kKiB;
    constexpr std::size_t kInUse = 128 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    PointerArray blocks(kInUse / kBlock);
    allocate_all(blocks, kBlock);
    const std::size_t half = blocks.size() / 2;
    const auto free_some = [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; b++) {
            hak_free(blocks[b]);
            blocks[b] = nullptr;
        }
    };
    set_option("retain_grace", "64M");
    for (int i = 0; i < 20; i++) {
        free_some(0, half);
        for (std::size_t b = 0; b < half; b++) {
            blocks[b] = touched_block(kBlock);
        }
    }
    forget_the_first_breaths();
    free_some(0, half);
    const std::size_t kept = retained();
    EXPECT_GE(kept, kInUse / 8) << "there is no grace";
    set_option("decay_ms", "20"); // the next free begins a period
    std::this_thread::sleep_for(milliseconds(30));
    hak_free(hak_malloc(kBlock));
    set_option("decay_ms", "60000");
    free_some(half, half + half / 4);
    EXPECT_LE(retained(), kept);
    free_all(blocks);
    set_option("background_thread", "2");
}

// Of each `part` blocks, one stays.
void keep_one_of(PointerArray &blocks, std::size_t part) {
    for (std::size_t b = 0; b < blocks.size(); b++) {
        if (b % part != 0) {
            hak_free(blocks[b]);
            blocks[b] = nullptr;
        }
    }
}

// One block in each slab keeps it, but is not what it takes.
TEST_F(Decay, WithoutABackgroundThreadTheGraceIsOfWhatIsInUseAndNotOfSlabs) {
    constexpr std::size_t kSmall = 1000;
    constexpr std::size_t kLarge = 256 * kKiB;
    constexpr std::size_t kStays = 64;
    constexpr std::size_t kMayBreathe = 8 * kMiB;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    PointerArray small(64 * kMiB / kSmall);
    PointerArray large(64 * kMiB / kLarge);
    allocate_all(small, kSmall);
    allocate_all(large, kLarge);
    for (int i = 0; i < 10; i++) {
        free_all(large);
        allocate_all(large, kLarge);
    }
    forget_the_first_breaths();
    keep_one_of(small, kStays);
    free_all(large);
    EXPECT_LE(retained(), kMayBreathe + 3 * kMiB);
    free_all(small);
    set_option("background_thread", "2");
}

// Nothing but small blocks is freed, and no slab becomes free of them.
TEST_F(Decay, WithoutABackgroundThreadFreeSlabsGoWhenBlocksInOthersAreFreed) {
    constexpr std::size_t kSmall = 1000;
    constexpr std::size_t kLarge = 256 * kKiB;
    constexpr std::size_t kStays = 64;
    set_option("background_thread", "0");
    set_option("decay_ms", "60000");
    set_option("retain_grace", "0");
    PointerArray small(128 * kMiB / kSmall);
    PointerArray large(32 * kMiB / kLarge);
    allocate_all(small, kSmall);
    allocate_all(large, kLarge);
    free_all(large);
    ASSERT_GE(retained(), 10 * kMiB) << "12 % of what is in use";
    keep_one_of(small, kStays);
    EXPECT_LE(retained(), 4 * kMiB);
    free_all(small);
    set_option("background_thread", "2");
}

} // namespace
