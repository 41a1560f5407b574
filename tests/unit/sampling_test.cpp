// Sampling: every byte that is asked for has the same chance, whatever becomes of the blocks; and a sampled
// block is a block like any other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hakmem.h"
#include "support/heap_profile.h"
#include "support/lanes.h"
#include "support/resident.h"
#include "support/scale.h"
#include "support/threads.h"

extern "C" {
void hakmem_test_thin(std::uint64_t interval); // support/thin.c
}

namespace {

using hakmem_test::estimate_tolerance;
using hakmem_test::heap_profile_now;
using hakmem_test::HeapProfile;
using hakmem_test::kEveryBlock;
using hakmem_test::kKiB;
using hakmem_test::kLanes;
using hakmem_test::kMiB;
using hakmem_test::run_in_thread;
using hakmem_test::run_threads;
using hakmem_test::Sampling;
using hakmem_test::scaled;

constexpr std::size_t kInterval = 16 * kKiB;
// Beyond the mid lane a block counts with its whole pages, which these sizes fill.
constexpr std::array<std::size_t, 12> kSizes = {1,     8,      16,         100,      1000,     1024,
                                                5'000, 40'000, 128 * kKiB, 1 * kMiB, 2 * kMiB, 4 * kMiB};

std::size_t blocks_for(std::size_t size, std::size_t bytes) {
    return std::max<std::size_t>(scaled(bytes) / size, 4);
}

void expect_near_truth(double estimate, std::size_t blocks, std::size_t size, const char *what) {
    const auto n = static_cast<double>(blocks);
    const auto bytes = static_cast<double>(size);
    EXPECT_NEAR(estimate, n * bytes, estimate_tolerance(n, bytes, kInterval))
        << what << " of " << blocks << " blocks of " << size << " bytes";
}

// A block that is freed and taken again from the top of a magazine never moves past a floor in it: what is
// sampled by such a floor would miss this program.
TEST(Sampling, CountsAProgramThatFreesOneBlockAndAllocatesOneForLong) {
    for (const std::size_t size : kSizes) {
        const Sampling sampling(kInterval);
        const std::size_t blocks = blocks_for(size, 128 * kMiB);
        for (std::size_t i = 0; i < blocks; i++) {
            hak_free(hak_malloc(size));
        }
        const HeapProfile profile = heap_profile_now();
        expect_near_truth(profile.total().bytes, blocks, size, "allocation");
        EXPECT_EQ(profile.live().blocks, 0) << size;
    }
}

TEST(Sampling, EstimatesWhatIsLiveInEachLane) {
    for (const std::size_t size : kSizes) {
        const Sampling sampling(kInterval);
        std::vector<void *> blocks(blocks_for(size, size < 100 ? 4 * kMiB : 64 * kMiB));
        for (void *&block : blocks) {
            block = hak_malloc(size);
            ASSERT_NE(block, nullptr);
        }
        expect_near_truth(heap_profile_now().live().bytes, blocks.size(), size, "all");
        for (std::size_t i = 0; i < blocks.size() / 2; i++) {
            hak_free(blocks[i]);
        }
        expect_near_truth(heap_profile_now().live().bytes, blocks.size() - blocks.size() / 2, size, "half");
        for (std::size_t i = blocks.size() / 2; i < blocks.size(); i++) {
            hak_free(blocks[i]);
        }
        EXPECT_EQ(heap_profile_now().live().blocks, 0);
    }
}

TEST(Sampling, EveryWayToAllocateCounts) {
    using Allocate = void *(*)(std::size_t size);
    const std::array<Allocate, 4> ways = {
        [](std::size_t size) { return hak_calloc(1, size); },
        [](std::size_t size) { return hak_realloc(nullptr, size); },
        [](std::size_t size) { return hak_aligned_alloc(4096, size); },
        [](std::size_t size) { return hak_realloc(hak_malloc(0), size); },
    };
    for (const Allocate allocate : ways) {
        for (const std::size_t size :
             {std::size_t{64}, std::size_t{20'000}, std::size_t{1 * kMiB}, 4 * kMiB}) {
            const Sampling sampling(kInterval);
            const std::size_t blocks = blocks_for(size, 32 * kMiB);
            for (std::size_t i = 0; i < blocks; i++) {
                hak_free(allocate(size));
            }
            expect_near_truth(heap_profile_now().total().bytes, blocks, size, "allocation");
        }
    }
}

// What a buffer grows by where it stands is sampled as what is allocated.
TEST(Sampling, EstimatesBuffersThatGrewAndShrank) {
    constexpr std::size_t kFirst = 128 * kKiB;
    constexpr std::size_t kStep = 64 * kKiB;
    for (const std::size_t last : {1 * kMiB, 8 * kMiB, 256 * kKiB}) {
        const Sampling sampling(1 * kMiB);
        std::vector<void *> buffers(scaled(200));
        for (void *&buffer : buffers) {
            buffer = hak_malloc(kFirst);
            for (std::size_t size = kFirst; size < last; size += kStep) {
                buffer = hak_realloc(buffer, size + kStep);
            }
            if (last < 1 * kMiB) {
                buffer = hak_realloc(buffer, 1 * kMiB);
                buffer = hak_realloc(buffer, last);
            }
            ASSERT_NE(buffer, nullptr);
        }
        const auto n = static_cast<double>(buffers.size());
        const auto bytes = static_cast<double>(last);
        EXPECT_NEAR(heap_profile_now().live().bytes, n * bytes, estimate_tolerance(n, bytes, 1 * kMiB))
            << last;
        for (void *buffer : buffers) {
            hak_free(buffer);
        }
        EXPECT_EQ(heap_profile_now().live().blocks, 0);
    }
}

TEST(Sampling, FiguresOfManyThreadsAddUp) {
    constexpr std::size_t kThreads = 8;
    constexpr std::size_t kSize = 200;
    const Sampling sampling(kInterval);
    const std::size_t blocks = blocks_for(kSize, 16 * kMiB);
    run_threads(kThreads, [=](std::size_t) {
        for (std::size_t i = 0; i < blocks; i++) {
            hak_free(hak_malloc(kSize));
        }
    });
    expect_near_truth(heap_profile_now().total().bytes, kThreads * blocks, kSize, "allocation");
}

TEST(Sampling, FiguresOfThreadsThatFollowEachOtherAddUp) {
    constexpr std::size_t kSize = 1000;
    constexpr std::size_t kBlocksOfAThread = 8;
    for (int round = 0; round < 4; round++) {
        const Sampling sampling(kInterval);
        const std::size_t threads = scaled(2'000);
        for (std::size_t i = 0; i < threads; i++) {
            run_in_thread([] {
                for (std::size_t k = 0; k < kBlocksOfAThread; k++) {
                    hak_free(hak_malloc(kSize));
                }
            });
        }
        expect_near_truth(heap_profile_now().total().bytes, threads * kBlocksOfAThread, kSize, "allocation");
    }
}

TEST(Sampling, ABlockFreedByAnotherThreadIsNoLongerLive) {
    const Sampling sampling(kEveryBlock);
    std::vector<void *> blocks;
    run_in_thread([&] {
        for (int i = 0; i < 100; i++) {
            for (const std::size_t size : kLanes) {
                blocks.push_back(hak_malloc(size));
            }
        }
    });
    EXPECT_EQ(heap_profile_now().header.live.blocks, static_cast<double>(blocks.size()));
    for (void *block : blocks) {
        hak_free(block);
    }
    const HeapProfile profile = heap_profile_now();
    EXPECT_EQ(profile.header.live.blocks, 0);
    EXPECT_EQ(profile.header.total.blocks, static_cast<double>(blocks.size()));
}

TEST(Sampling, BlocksAreFollowedAfterTheStopAndForgottenByTheNextStart) {
    std::vector<void *> blocks;
    {
        const Sampling sampling(kEveryBlock);
        for (const std::size_t size : kLanes) {
            blocks.push_back(hak_malloc(size));
        }
    }
    for (const std::size_t size : kLanes) {
        hak_free(hak_malloc(size));
    }
    EXPECT_EQ(heap_profile_now().header.total.blocks, kLanes.size());
    hak_free(blocks.back());
    blocks.pop_back();
    EXPECT_EQ(heap_profile_now().header.live.blocks, kLanes.size() - 1);
    const Sampling again(kEveryBlock);
    EXPECT_EQ(heap_profile_now().header.total.blocks, 0);
    for (void *block : blocks) {
        hak_free(block);
    }
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
}

TEST(Sampling, StartingWhatGoesOnChangesNothing) {
    const Sampling sampling(kEveryBlock);
    void *block = hak_malloc(100);
    EXPECT_EQ(hak_profile_start(kEveryBlock), 0);
    EXPECT_EQ(hak_profile_start(0), 0);
    EXPECT_EQ(heap_profile_now().header.live.blocks, 1);
    hak_free(block);
}

// What stays of the samples is judged over many rounds together: a chance that is wrong by little shows.
TEST(Sampling, ThinnedSamplesTellTheTruth) {
    constexpr std::size_t kLonger = 8 * kInterval;
    constexpr std::size_t kRounds = HAKMEM_TEST_SANITIZED ? 10 : 40;
    for (const std::size_t size : kSizes) {
        const std::size_t count = 2 * blocks_for(size, size < 100 ? 256 * kKiB : 4 * kMiB);
        double live = 0;
        double total = 0;
        for (std::size_t round = 0; round < kRounds; round++) {
            const Sampling sampling(kInterval);
            std::vector<void *> blocks(count);
            for (void *&block : blocks) {
                block = hak_malloc(size);
                hak_free(hak_malloc(size));
            }
            for (std::size_t i = 0; i < count; i += 2) {
                hak_free(blocks[i]);
            }
            hakmem_test_thin(kLonger);
            const HeapProfile thinned = heap_profile_now();
            EXPECT_EQ(thinned.interval, kLonger);
            EXPECT_GE(thinned.header.total.blocks, thinned.header.live.blocks);
            live += thinned.live().bytes;
            total += thinned.total().bytes;
            for (std::size_t i = 1; i < count; i += 2) {
                hak_free(blocks[i]);
            }
            EXPECT_EQ(heap_profile_now().live().blocks, 0);
        }
        const auto bytes = static_cast<double>(size);
        const auto all = static_cast<double>(count * kRounds);
        EXPECT_NEAR(live, all / 2 * bytes, estimate_tolerance(all / 2, bytes, kLonger)) << size;
        EXPECT_NEAR(total, all * 2 * bytes, estimate_tolerance(all * 2, bytes, kLonger)) << size;
    }
}

// More than 4096 samples a second are no problem for any machine that runs this.
TEST(Sampling, AnIntervalThatNobodyAskedForGrowsWithTheRate) {
    constexpr std::size_t kSize = 40'000;
    constexpr std::size_t kLongEnough = 4 * kMiB;
    const Sampling sampling(0);
    EXPECT_EQ(heap_profile_now().interval, 512 * kKiB);
    std::vector<void *> blocks(scaled(4000));
    for (void *&block : blocks) {
        block = hak_malloc(kSize);
    }
    std::size_t allocated = blocks.size();
    HeapProfile profile = heap_profile_now();
    for (int tries = 0; profile.interval < kLongEnough && tries < 100'000; tries++) {
        for (int i = 0; i < 10'000; i++) {
            hak_free(hak_malloc(kSize));
        }
        allocated += 10'000;
        profile = heap_profile_now();
    }
    EXPECT_GE(profile.interval, kLongEnough);
    const auto live = static_cast<double>(blocks.size());
    const auto total = static_cast<double>(allocated);
    EXPECT_NEAR(profile.live().bytes, live * kSize, estimate_tolerance(live, kSize, profile.interval));
    EXPECT_NEAR(profile.total().bytes, total * kSize, estimate_tolerance(total, kSize, profile.interval));
    EXPECT_EQ(hak_profile_start(0), 0);
    EXPECT_EQ(heap_profile_now().header.live.blocks, profile.header.live.blocks) << "it goes on";
    for (void *block : blocks) {
        hak_free(block);
    }
    EXPECT_EQ(heap_profile_now().header.live.blocks, 0);
}

TEST(Sampling, ABurstLeavesTheIntervalNearlyAsItWas) {
    const Sampling sampling(0);
    for (int i = 0; i < 1000; i++) {
        hak_free(hak_malloc(1 * kMiB)); // far less than a millisecond's work, and nearly as many samples
    }
    EXPECT_LE(heap_profile_now().interval, HAKMEM_TEST_SANITIZED ? 16 * kMiB : 1 * kMiB);
}

TEST(Sampling, AnIntervalThatSomebodyAskedForStays) {
    const Sampling sampling(kInterval);
    for (std::size_t i = 0; i < scaled(200'000); i++) {
        hak_free(hak_malloc(kInterval));
    }
    EXPECT_EQ(heap_profile_now().interval, kInterval);
}

TEST(Sampling, RefusesAnIntervalBeyondBelief) {
    EXPECT_EQ(hak_profile_start(SIZE_MAX), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST(Sampling, UsableSizeAndReallocWithinABlockAreAsWithout) {
    for (const std::size_t size : kSizes) {
        void *plain = hak_malloc(size);
        const std::size_t usable = hak_usable_size(plain);
        const Sampling sampling(kEveryBlock);
        void *sampled = hak_malloc(size);
        EXPECT_EQ(hak_usable_size(sampled), usable) << size;
        EXPECT_EQ(hak_realloc(sampled, usable), sampled) << size;
        hak_free(sampled);
        hak_free(plain);
    }
}

TEST(Sampling, AlignedBlocksAreAligned) {
    const Sampling sampling(kEveryBlock);
    for (std::size_t alignment = 16; alignment <= 4 * kMiB; alignment *= 2) {
        void *block = hak_aligned_alloc(alignment, 100);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
        hak_free(block);
    }
}

TEST(SamplingDeathTest, ASampledBlockFreedTwiceIsFoundAtOnce) {
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // as other tests of the process may have had threads
    for (const std::size_t size : kLanes) {
        EXPECT_DEATH(
            {
                hak_profile_start(kEveryBlock);
                void *block = hak_malloc(size);
                hak_free(block);
                hak_free(block);
            },
            "hakmem: (double|invalid) free")
            << size;
    }
}

} // namespace
