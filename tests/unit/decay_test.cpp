// Free memory that nobody needs goes back by itself, whoever freed it; what is in use never does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem.h"
#include "os/fault.h"
#include "support/decay.h"
#include "support/lanes.h"
#include "support/mixed_population.h"
#include "support/pattern.h"
#include "support/random.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/statistics.h"
#include "support/threads.h"
#include "support/waiting.h"

namespace {

using hakmem_test::all_zero;
using hakmem_test::allocate_all;
using hakmem_test::Decay;
using hakmem_test::expect_memory_to_come_back;
using hakmem_test::free_all;
using hakmem_test::happens;
using hakmem_test::kKiB;
using hakmem_test::kMayStay;
using hakmem_test::kMayStayRetained;
using hakmem_test::kMiB;
using hakmem_test::Meeting;
using hakmem_test::MixedPopulation;
using hakmem_test::PointerArray;
using hakmem_test::purged_bytes;
using hakmem_test::Random;
using hakmem_test::ResidentMeter;
using hakmem_test::retained;
using hakmem_test::run_threads;
using hakmem_test::scaled;
using hakmem_test::set_option;
using hakmem_test::shuffle;
using hakmem_test::stats_now;
using hakmem_test::thread_count;
using hakmem_test::touched_block;

using std::chrono::milliseconds;

class DecayOfLane : public Decay, public testing::WithParamInterface<std::size_t> {
  protected:
    DecayOfLane() {
        set_option("retain_min", "1G"); // only time gives memory back, and not the bound
    }

    static constexpr std::size_t kThreads = 4;

    // As many blocks as make up this much, shared between `threads`; under a sanitizer, less.
    static std::size_t count_for(std::size_t threads) {
        return std::max<std::size_t>(scaled(96 * kMiB) / GetParam() / threads, 4);
    }
};

TEST_P(DecayOfLane, ComesBackWithoutAnotherCall) {
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    free_all(blocks);
    expect_memory_to_come_back(meter, "after the last free");
}

TEST_P(DecayOfLane, ComesBackWhenFreedInRandomOrder) {
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    Random random(GetParam());
    shuffle(blocks, random);
    free_all(blocks);
    expect_memory_to_come_back(meter, "after the last free");
}

TEST_P(DecayOfLane, ComesBackFromThreadsThatHaveEnded) {
    const ResidentMeter meter;
    run_threads(kThreads, [](std::size_t) {
        PointerArray blocks(count_for(kThreads));
        allocate_all(blocks, GetParam());
        free_all(blocks);
    });
    expect_memory_to_come_back(meter, "after the threads' end");
}

TEST_P(DecayOfLane, ComesBackFromThreadsThatSleep) {
    const ResidentMeter meter;
    Meeting meeting(kThreads);
    run_threads(kThreads, [&](std::size_t number) {
        {
            PointerArray blocks(count_for(kThreads));
            allocate_all(blocks, GetParam());
            free_all(blocks);
        }
        meeting.meet();
        if (number == 0) {
            expect_memory_to_come_back(meter, "while the threads sleep");
        }
        meeting.meet();
    });
}

TEST_P(DecayOfLane, ComesBackWhenOtherThreadsFreeIt) {
    const ResidentMeter meter;
    Meeting meeting(kThreads);
    std::array<std::unique_ptr<PointerArray>, kThreads> blocks;
    run_threads(kThreads, [&](std::size_t number) {
        blocks[number] = std::make_unique<PointerArray>(count_for(kThreads));
        allocate_all(*blocks[number], GetParam());
        meeting.meet();
        free_all(*blocks[(number + 1) % kThreads]);
        meeting.meet();
        blocks[number].reset();
        meeting.meet();
        if (number == 0) {
            expect_memory_to_come_back(meter, "while the threads that freed it sleep");
        }
        meeting.meet();
    });
}

TEST_P(DecayOfLane, WithoutABackgroundThreadLaterFreesGiveItBack) {
    set_option("background_thread", "0");
    PointerArray blocks(count_for(1));
    const ResidentMeter meter;
    allocate_all(blocks, GetParam());
    free_all(blocks);
    EXPECT_TRUE(happens([&] {
        hak_free(hak_malloc(300'000));
        std::this_thread::sleep_for(milliseconds(100));
#if HAKMEM_TEST_SANITIZED
        return retained() <= kMiB;
#else
        return meter.growth() <= static_cast<std::ptrdiff_t>(kMayStay) && retained() <= kMiB;
#endif
    })) << "retained: "
        << retained() << ", over the start: " << meter.growth();
#if !HAKMEM_TEST_SANITIZED
    EXPECT_EQ(thread_count(), 1u) << "there is a thread although it is switched off";
#endif
    set_option("background_thread", "2");
}

TEST_F(Decay, TouchesNoBlockInUse) {
    set_option("decay_ms", "20");
    const std::uint64_t purged_before = purged_bytes();
    run_threads(3, [](std::size_t number) {
        MixedPopulation population(number);
        for (std::size_t round = 0; round < scaled(60) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(number * 20));
            population.check();
        }
    });
    EXPECT_GT(purged_bytes(), purged_before) << "nothing was given back: this has tested nothing";
}

TEST_F(Decay, TouchesNoBlockInUseWithoutABackgroundThread) {
    set_option("background_thread", "0");
    set_option("decay_ms", "5");
    run_threads(3, [](std::size_t number) {
        MixedPopulation population(100 + number);
        for (std::size_t round = 0; round < scaled(60) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(number * 5));
            population.check();
        }
    });
}

TEST_F(Decay, WhatWasGivenBackReadsAsZeroInCalloc) {
    for (const std::size_t size : {std::size_t{300'000}, std::size_t{5'000'000}}) {
        PointerArray blocks(std::max<std::size_t>(12 * kMiB / size, 2));
        allocate_all(blocks, size); // full of 0xDB
        free_all(blocks);
        ASSERT_TRUE(happens([] { return retained() <= kMayStayRetained; })) << size;
        for (void *&block : blocks) {
            block = hak_calloc(1, size);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(all_zero(block, size)) << size;
        }
        free_all(blocks);
    }
}

// For ThreadSanitizer above all: nothing orders the allocator's thread but its own locks.
TEST_F(Decay, GoesOnBesideThreadsThatAllocateCollectAskAndSetOptions) {
    set_option("decay_ms", "0");
    std::atomic<int> busy{3};
    run_threads(5, [&](std::size_t number) {
        if (number >= 3) {
            Random random(number);
            for (unsigned i = 0; busy > 0; i++) {
                if (number == 3) {
                    hak_collect();
                } else {
                    set_option("retain_min", random.one_in(2) ? "0" : "4M");
                    set_option("retain_grace", random.one_in(2) ? "0" : "16M");
                    set_option("background_thread", i % 8 == 0 ? "0" : "2");
                    retained();
                }
                std::this_thread::sleep_for(milliseconds(1));
            }
            return;
        }
        MixedPopulation population(200 + number);
        for (std::size_t round = 0; round < scaled(300) && !HasFailure(); round++) {
            population.grow();
            population.shrink();
            population.check();
        }
        busy--;
    });
}

#if !HAKMEM_TEST_SANITIZED
// A part of what they came to lie on stays behind huge blocks: as much as may stay, by what is in use now.
TEST_F(Decay, LeavesLittleBehindHugeBlocksWhenLessIsInUse) {
    constexpr std::size_t kSize = 2 * kMiB + 4 * kKiB;
    const ResidentMeter meter;
    PointerArray large(60);
    PointerArray small(large.size() / 2);
    allocate_all(large, 4 * kMiB);
    for (std::size_t i = 0; i < small.size(); i++) {
        hak_free(std::exchange(large[i], nullptr));
        small[i] = touched_block(kSize);
    }
    free_all(large);
    constexpr std::size_t kPercent = 112;
    const std::size_t bound = small.size() * kSize / 100 * kPercent + kMayStay;
    EXPECT_TRUE(happens([&] { return meter.growth() <= static_cast<std::ptrdiff_t>(bound); }))
        << meter.growth() << " bytes over the start, " << bound << " may stay";
    free_all(small);
}

TEST_F(Decay, LeavesLittleOfThreadsThatWereManyAtOnce) {
    constexpr std::size_t kManyThreads = 1000;
    constexpr std::size_t kOfAThread = 8 * kKiB;
    const ResidentMeter meter;
    Meeting meeting(kManyThreads);
    std::vector<std::thread> threads;
    threads.reserve(kManyThreads);
    for (std::size_t i = 0; i < kManyThreads; i++) {
        threads.emplace_back([&meeting] {
            PointerArray blocks(40);
            for (std::size_t b = 0; b < 40; b++) {
                blocks[b] = touched_block(16 + b * 25);
            }
            meeting.meet();
            free_all(blocks);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const auto may_stay = static_cast<std::ptrdiff_t>(kMayStay + kManyThreads * kOfAThread);
    EXPECT_TRUE(happens([&] { return meter.growth() <= may_stay; }))
        << meter.growth() << " bytes over the start stay resident";
}

TEST_F(Decay, LeavesLittleOfThreadsThatOnlyFreeAndWereManyAtOnce) {
    constexpr std::size_t kManyThreads = 300;
    constexpr std::size_t kOfAThread = 8 * kKiB;
    constexpr std::size_t kOfEach = 200; // a few make no heap
    PointerArray blocks(kManyThreads * kOfEach);
    for (std::size_t b = 0; b < blocks.size(); b++) {
        blocks[b] = touched_block(16 + b % kOfEach * 4);
    }
    const std::size_t before = stats_now().metadata_bytes;
    Meeting meeting(kManyThreads);
    run_threads(kManyThreads, [&](std::size_t thread) {
        for (std::size_t b = 0; b < kOfEach; b++) {
            hak_free(blocks[thread * kOfEach + b]);
        }
        meeting.meet();
    });
    EXPECT_TRUE(happens([before] {
        return stats_now().metadata_bytes <= before + kMiB + kManyThreads * kOfAThread;
    })) << stats_now().metadata_bytes - before
        << " bytes of metadata stay";
}
#endif

TEST_F(Decay, LosesNothingWhileTheKernelTakesNothingBack) {
    set_option("decay_ms", "10");
    const ResidentMeter meter;
    {
        MixedPopulation population(1);
        for (std::size_t round = 0; round < scaled(40) && !HasFailure(); round++) {
            os_fault_set(OS_FAULT_PURGE, 0, -1);
            population.grow();
            population.shrink();
            std::this_thread::sleep_for(milliseconds(15));
            population.check();
            if (round % 2 == 0) {
                os_fault_set(OS_FAULT_PURGE, static_cast<long>(round % 5), 3); // now this call, now that
            }
            std::this_thread::sleep_for(milliseconds(15));
        }
        os_fault_set(OS_FAULT_PURGE, 0, -1);
    }
    std::this_thread::sleep_for(milliseconds(50)); // the thread tries, and fails
    os_fault_set(OS_FAULT_PURGE, 0, 0);
    expect_memory_to_come_back(meter, "once the kernel takes it");
}

INSTANTIATE_TEST_SUITE_P(Sizes, DecayOfLane, testing::Values(16, 1024, 10'000, 300'000, 5'000'000),
                         testing::PrintToStringParamName());

} // namespace
