// A program that breathes keeps what it takes again, and no more than may stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "support/decay.h"
#include "support/lanes.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"

namespace {

using hakmem_test::allocate_all;
using hakmem_test::Decay;
using hakmem_test::faults_so_far;
using hakmem_test::free_all;
using hakmem_test::kMiB;
using hakmem_test::PointerArray;
using hakmem_test::Random;
using hakmem_test::retained;
using hakmem_test::set_option;

using std::chrono::milliseconds;
using std::chrono::steady_clock;

#if !HAKMEM_TEST_SANITIZED
// A program without threads that does nothing but take as much again and again keeps up to 32 MiB of it, and
// no more.
class LongBreath : public Decay, public testing::WithParamInterface<std::size_t> {};

TEST_P(LongBreath, TakesFewFaultsAndNoMoreThanMayStay) {
    constexpr std::size_t kMayStay = 32 * kMiB;
    const std::size_t bytes = GetParam() * kMiB;
    const bool stays = bytes <= kMayStay;
    const std::size_t rounds_that_count = stays ? 100 : 20; // for faults, where these count
    set_option("background_thread", "0");
    for (const std::size_t size : {bytes, kMiB, std::size_t{130'000}}) {
        PointerArray blocks(bytes / size);
        const auto breathe = [&](std::size_t rounds) {
            for (std::size_t i = 0; i < rounds; i++) {
                allocate_all(blocks, size);
                free_all(blocks);
            }
        };
        breathe(10);
        const std::size_t before = faults_so_far();
        breathe(rounds_that_count);
        if (stays) {
            EXPECT_LE(faults_so_far() - before, bytes / 4096 * rounds_that_count / 10)
                << "in blocks of " << size;
        }
        EXPECT_LE(retained(), kMayStay + 3 * kMiB) << "in blocks of " << size;
    }
    set_option("background_thread", "2");
}

INSTANTIATE_TEST_SUITE_P(MiB, LongBreath, testing::Values(12, 20, 30, 100),
                         testing::PrintToStringParamName());

// Allocates and frees the same 8 MiB every few milliseconds.
class Breath : public testing::TestWithParam<std::size_t> {
  protected:
    static constexpr std::size_t kBytes = 8 * kMiB;
    static constexpr std::size_t kPages = kBytes / 4096;
    static constexpr int kRoundsToLearn = 20;
    static constexpr int kRounds = 100;

    static void breathe(int rounds) {
        PointerArray blocks(std::max<std::size_t>(kBytes / GetParam(), 1));
        for (int i = 0; i < rounds; i++) {
            allocate_all(blocks, GetParam());
            free_all(blocks);
            std::this_thread::sleep_for(milliseconds(3));
        }
    }
};

TEST_P(Breath, TakesFewFaultsOfAProgramThatUsesMore) {
    PointerArray rest(32);
    allocate_all(rest, kMiB);
    breathe(kRoundsToLearn);
    const std::size_t before = faults_so_far();
    breathe(kRounds);
    EXPECT_LE(faults_so_far() - before, kPages * kRounds / 20) << "of " << kPages * kRounds << " pages used";
    free_all(rest);
}

// Between two breaths nothing at all is in use.
TEST_P(Breath, TakesFewFaultsOfAProgramThatUsesNothingElse) {
    breathe(kRoundsToLearn);
    const std::size_t before = faults_so_far();
    breathe(kRounds);
    EXPECT_LE(faults_so_far() - before, kPages * kRounds / 20) << "of " << kPages * kRounds << " pages used";
}

// However much it breathes, where the library's own thread gives back what is left when the program stops.
TEST_P(Breath, TakesFewFaultsOfAProgramWithThreadsThatBreathesMore) {
    constexpr std::size_t kTimes = 4;
    std::thread([] {
        std::vector<std::thread> threads;
        const auto breathe_together = [&](int rounds) {
            for (std::size_t i = 0; i < kTimes; i++) {
                threads.emplace_back([=] { breathe(rounds); });
            }
            for (std::thread &thread : threads) {
                thread.join();
            }
            threads.clear();
        };
        breathe_together(kRoundsToLearn);
        const std::size_t before = faults_so_far();
        breathe_together(kRounds);
        EXPECT_LE(faults_so_far() - before, kTimes * kPages * kRounds / 20)
            << "of " << kTimes * kPages * kRounds << " pages used";
    }).join();
}

// Between two breaths it sleeps for longer than a period of the decay, and less than DECAY_MS.
class SlowBreath : public Decay, public testing::WithParamInterface<std::size_t> {};

TEST_P(SlowBreath, TakesFewFaults) {
    constexpr std::size_t kBytes = 32 * kMiB;
    constexpr int kRounds = 4;
    set_option("decay_ms", "1200");
    PointerArray blocks(kBytes / GetParam());
    // Returns whether each round was shorter than DECAY_MS, as on a machine that is not too busy.
    const auto breathe = [&] {
        bool in_time = true;
        for (int i = 0; i < kRounds; i++) {
            const auto begin = steady_clock::now();
            allocate_all(blocks, GetParam());
            free_all(blocks);
            std::this_thread::sleep_for(milliseconds(800));
            in_time = in_time && steady_clock::now() - begin < milliseconds(1100);
        }
        return in_time;
    };
    breathe();
    std::size_t faults = 0;
    bool in_time = false;
    for (int attempts = 5; attempts > 0 && !in_time; attempts--) {
        const std::size_t before = faults_so_far();
        in_time = breathe();
        faults = faults_so_far() - before;
    }
    EXPECT_LE(faults, kBytes / 4096 * kRounds / 4);
}

INSTANTIATE_TEST_SUITE_P(Bytes, SlowBreath, testing::Values(2000, 40'000), testing::PrintToStringParamName());

// A program that breathed, and for long has taken nothing again, or little: what it frees then is not kept
// for what it did before.
class BreathOfLongAgo : public Decay, public testing::WithParamInterface<std::size_t> {};

TEST_P(BreathOfLongAgo, IsForgotten) {
    constexpr std::size_t kBlock = 256 * 1024;
    constexpr std::size_t kInUse = 100 * kMiB;
    constexpr std::size_t kMayStayAtOnce = 12 * kMiB;
    set_option("decay_ms", "200");
    PointerArray blocks(kInUse / kBlock);
    allocate_all(blocks, kBlock);
    for (int i = 0; i < 8; i++) {
        hakmem_test::use_and_free(60 * kMiB);
    }
    EXPECT_GT(retained(), kMayStayAtOnce + kInUse / 8); // or this tests nothing
    for (int i = 0; i < 100; i++) {
        if (GetParam() > 0) {
            hakmem_test::use_and_free(GetParam());
        }
        std::this_thread::sleep_for(milliseconds(20));
    }
    free_all(blocks);
    EXPECT_LE(retained(), kMayStayAtOnce);
}

INSTANTIATE_TEST_SUITE_P(BytesMeanwhile, BreathOfLongAgo, testing::Values(0, kMiB),
                         testing::PrintToStringParamName());

// Freed in no order: slabs become free one block at a time, and their pages before that. A breath is shorter
// than a period of the decay however busy the machine is.
class BreathInNoOrder : public Decay, public testing::WithParamInterface<std::size_t> {};

TEST_P(BreathInNoOrder, TakesFewFaults) {
    constexpr std::size_t kBytes = 64 * kMiB;
    constexpr std::size_t kRounds = 10;
    set_option("decay_ms", "5000");
    Random random(1);
    PointerArray blocks(kBytes / GetParam());
    const auto breathe = [&] {
        for (std::size_t round = 0; round < kRounds; round++) {
            allocate_all(blocks, GetParam());
            shuffle(blocks, random);
            free_all(blocks);
        }
    };
    breathe();
    const std::size_t before = faults_so_far();
    breathe();
    EXPECT_LE(faults_so_far() - before, kBytes / 4096 * kRounds / 20);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BreathInNoOrder, testing::Values(1000, 2000),
                         testing::PrintToStringParamName());

INSTANTIATE_TEST_SUITE_P(Sizes, Breath, testing::Values(16, 1024, 10'000, 300'000, 2'000'000, 8'000'000),
                         testing::PrintToStringParamName());
#endif

} // namespace
